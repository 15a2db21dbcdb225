// Examples from tables, one a row.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/entities.h"
#include "data/tasks/example_files.h"
#include "data/tasks/labels.h"
#include "data/tasks/word_cut.h"
#include "data/text/line_reader.h"
#include "data/text/row_lines.h"
#include "data/text/table_cells.h"

namespace nystrom {
namespace {

/// Predictions and vectors have one output for each row; in training empty lines separate.
EmptyLines empty_lines(const TaskConfig& task, Labelled labelled) {
  const bool counts = labelled == Labelled::optional && *task.kind != TaskKind::embeddings;
  return counts ? EmptyLines::are_rows : EmptyLines::skip;
}

/// The names of a column's numbers in the dataset_info.json beside a file, as the Datasets library
/// writes it. Empty if there is none.
std::vector<std::string> names_beside(const std::filesystem::path& file,
                                      const std::string& column) {
  const std::filesystem::path info = file.parent_path() / "dataset_info.json";
  if (!std::filesystem::is_regular_file(info)) return {};
  constexpr std::size_t max_bytes = 64 << 20;  // it names every file that was downloaded
  nlohmann::json part = read_json_file(info, max_bytes);
  for (const std::string& key : {std::string("features"), column, std::string("feature")}) {
    const bool there = part.is_object() && part.contains(key);
    if (!there && key != "feature") return {};  // a sequence's names are one level deeper
    if (there) part = nlohmann::json(part[key]);
  }
  std::vector<std::string> names;
  if (part.is_object() && part.contains("names"))
    for (const auto& name : part["names"])
      if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

/// The task with the columns of this file. For vectors, texts with labels or alone may be trained
/// on, and pairs held out: each file then has some of the columns.
TaskConfig with_own_columns(TaskConfig task, const std::filesystem::path& file, TaskFormat format) {
  TaskColumns& columns = task.columns;
  if (*task.kind != TaskKind::embeddings || !columns.pair || !*task.header) return task;
  const auto reader = open_rows(file, table_format(format), true, {});
  for (bool more = true; more && reader->names().empty();) {  // a JSON object has the names
    try {
      more = reader->next().has_value();
    } catch (const BadRow&) {
      if (task.bad_rows != BadRows::skip) return task;  // the reading of examples tells it
    }
  }
  const auto has = [&](const std::optional<std::string>& name) {
    return name && std::ranges::find(reader->names(), *name) != reader->names().end();
  };
  if (has(columns.pair) && !has(columns.label))
    columns.label.reset();
  else if (!has(columns.pair) && (has(columns.label) || !columns.label))
    columns.pair.reset();
  return task;
}

class TableExamples {
 public:
  TableExamples(const TaskConfig& task, const std::filesystem::path& file, TaskFormat format,
                Labelled labelled)
      : task_(with_own_columns(task, file, format)),
        labelled_(labelled),
        file_(std::make_shared<std::string>(printable_path(file))),
        places_(columns(task.columns, format)),
        label_names_(*task.kind == TaskKind::tokens && places_.label
                         ? names_beside(file, places_.wanted[*places_.label].name)
                         : std::vector<std::string>()),
        reader_(open_rows(file, table_format(format), *task.header, places_.wanted,
                          empty_lines(task, labelled))) {
    // task.labels may be the order of a model's outputs, and the data have another.
    if (!task.labels.empty() && !std::ranges::is_permutation(label_names_, task.labels))
      label_names_ = task.labels;
  }

  /// The next row; nothing after the last. Continues behind a BadRow.
  std::optional<Example> next() {
    auto row = reader_->next();
    if (!row) return std::nullopt;
    Example example;
    example.file = file_;
    example.line = row->line;
    example.row = row->number;
    if (places_.id) example.id = row->cells[*places_.id].value_or("");
    example.named = task_.columns.id.has_value();
    if (*task_.kind == TaskKind::tokens)
      read_words(*row, example);
    else
      read_texts(*row, example);
    return example;
  }

  /// Adds what a user should know of how the file was read.
  void add_notes(std::vector<std::string>& notes) const {
    if (const std::string note = reader_->note(); !note.empty()) notes.push_back(note);
    const TaskKind kind = *task_.kind;
    const bool pairs = places_.pair.has_value();
    if (!pairs && places_.choices.empty() && kind != TaskKind::tokens &&
        kind != TaskKind::questions)
      note_unread(
          {"pair", "text_pair", "text2", "sentence2", "question2", "positive", "hypothesis"},
          "; if it holds a second text, set task.columns.pair", notes);
    if (!pairs && kind == TaskKind::classification && labelled_ == Labelled::optional &&
        !places_.label && std::ranges::find(reader_->names(), "_id") != reader_->names().end() &&
        std::ranges::find(reader_->names(), "title") != reader_->names().end())
      notes.push_back(fmt::format(
          "{}: column 'title' is not read; evaluate --retrieval puts it in front of the text",
          *file_));
    if (kind == TaskKind::embeddings && pairs && !task_.columns.label &&
        task_.columns.negatives.empty()) {
      note_unread({"label", "labels", "score", "similarity"},
                  ", and every pair counts as alike; if it tells how alike they are, set "
                  "task.columns.label",
                  notes);
      note_unread({"negative", "negatives", "neg", "hard_negative"},
                  "; if it holds texts unlike the first, set task.columns.negatives", notes);
    }
  }

 private:
  /// Notes, for each of the columns `names` that there is, that it is not read.
  void note_unread(std::initializer_list<const char*> names, const char* remedy,
                   std::vector<std::string>& notes) const {
    for (const std::string name : names)
      if (std::ranges::find(reader_->names(), name) != reader_->names().end() &&
          std::ranges::find(places_.wanted, name, &WantedColumn::name) == places_.wanted.end())
        notes.push_back(
            fmt::format("{}: column '{}' is not read{}={}", *file_, name, remedy, name));
  }

  /// The positions of an example's parts in a row.
  struct Columns {
    std::vector<WantedColumn> wanted;
    std::optional<std::size_t> text, pair, label, id, impossible;
    std::vector<std::size_t> labels, choices, negatives;
    std::vector<std::size_t> absent;  // what a row may not have, because the first one has it not
    bool list_of_choices = false, list_of_labels = false;
  };

  /// `given`: the columns that the task names, of which this file may lack some.
  Columns columns(const TaskColumns& given, TaskFormat format) const {
    const TaskColumns names = named_columns(task_);
    const TaskKind kind = *task_.kind;
    Columns places;
    const auto want = [&](const std::string& name, bool required, bool list = false) {
      places.wanted.push_back({name, required, list});
      return places.wanted.size() - 1;
    };
    const bool words = kind == TaskKind::tokens;
    places.text = want(*names.text, true, words);
    if (names.pair) places.pair = want(*names.pair, true);
    const bool scored = kind == TaskKind::embeddings && names.label;
    const bool json = format == TaskFormat::jsonl || format == TaskFormat::json;
    const bool answers = kind == TaskKind::questions;
    places.list_of_labels = *task_.multi_label && !task_.label_separator && names.label;
    if (labelled_ == Labelled::required || scored) {
      require_input(!places.list_of_labels || json,
                    "{}: a cell of it is one text; give what stands between labels "
                    "(task.label_separator), or a column of 0 and 1 for each (task.columns.labels)",
                    *file_);
      require_input(!answers || json,
                    "{}: a cell of it is one text; questions with answers are read from JSON: "
                    "SQuAD's own, or rows with its columns (.jsonl)",
                    *file_);
      if (names.label) places.label = want(*names.label, true, words || places.list_of_labels);
      places.wanted.back().json = answers;
      for (const std::string& name : names.labels) places.labels.push_back(want(name, true));
      if (kind == TaskKind::classification && !*task_.multi_label)
        places.wanted.back().hint = "; if a text has several labels, set task.multi_label: true";
    }
    const bool named = answers && *task_.header;  // columns that a file may have beside
    if (names.id || named) places.id = want(names.id.value_or("id"), names.id.has_value());
    if (named) places.impossible = want("is_impossible", false);
    places.list_of_choices = json && names.choices.size() == 1;
    for (const std::string& name : names.choices) {
      places.choices.push_back(want(name, true, places.list_of_choices));
      places.wanted.back().names = places.list_of_choices;
    }
    for (const std::string& name : names.negatives) places.negatives.push_back(want(name, true));
    if (given.pair && !names.pair) places.absent.push_back(want(*given.pair, false));
    if (given.label && !names.label) places.absent.push_back(want(*given.label, false));
    name_options(names, places.wanted);
    if (task_.fills_masks) places.wanted[*places.text].option = "data.text_column";
    return places;
  }

  void read_words(TableRow& row, Example& example) {
    example.words = std::move(row.lists[*places_.text]);
    if (example.words.empty()) throw BadRow(example.place() + ": the list of words is empty");
    for (const std::string& word : example.words)
      if (word.empty()) throw BadRow(example.place() + ": a word is empty");
    if (!places_.label) return;
    example.labels = std::move(row.lists[*places_.label]);
    example.labelled = true;
    if (example.labels.size() != example.words.size())
      throw BadRow(fmt::format("{}: there are {} words but {} labels", example.place(),
                               example.words.size(), example.labels.size()));
    if (std::ranges::find(example.labels, "-100") != example.labels.end())
      throw BadRow(
          example.place() +
          ": the label -100, of words that count for nothing, is of a data set that is cut "
          "into tokens; give its words, each with a label");
    name_numbers(example);
    for (const std::string& tag : example.labels) check_tag(task_, tag, example.place());
  }

  /// Replaces the numbers of labels (one or more), as the Datasets library writes them, by names.
  void name_numbers(Example& example) {
    std::vector<std::string>& tags = example.labels;
    const bool numbers = std::ranges::all_of(tags, [](const std::string& tag) {
      return !tag.empty() && tag.size() < 6 && tag.find_first_not_of("0123456789") == tag.npos;
    });
    if (!numbers || label_names_.empty() ||
        std::ranges::find(label_names_, tags[0]) != label_names_.end())
      return;
    for (std::string& tag : tags) {
      const auto index = static_cast<std::size_t>(std::stoul(tag));
      if (index >= label_names_.size())
        throw BadRow(fmt::format("{}: the label {} has no name; task.labels names 0 … {}",
                                 example.place(), tag, label_names_.size() - 1));
      tag = label_names_[index];
    }
  }

  void read_texts(TableRow& row, Example& example) {
    example.text = std::move(*row.cells[*places_.text]);
    if (places_.pair) example.pair = std::move(row.cells[*places_.pair]);
    for (const std::size_t place : places_.absent)
      if (row.cells[place])
        throw BadRow(fmt::format("{}: the row has '{}', and the first row of the file has not",
                                 example.place(), printable(places_.wanted[place].name)));
    if (*task_.kind == TaskKind::questions) {
      if (is_blank(example.text)) throw BadRow(example.place() + ": the question is empty");
      if (is_blank(*example.pair)) throw BadRow(example.place() + ": the context is empty");
    }
    read_choices(row, example);
    for (const std::size_t place : places_.negatives)
      example.negatives.push_back(std::move(*row.cells[place]));
    if (*task_.multi_label) return read_label_set(row, example);
    if (!places_.label) return;
    std::string& label = *row.cells[*places_.label];
    if (*task_.kind == TaskKind::questions)
      return read_question(
          label, places_.impossible ? row.cells[*places_.impossible] : std::nullopt, example);
    if (label.empty())
      throw BadRow(
          fmt::format("{}: the label (column '{}') is empty; complete the row, or "
                      "set task.bad_rows to skip",
                      example.place(), printable(places_.wanted[*places_.label].name)));
    example.labelled = true;
    read_label(std::move(label), row.names, example);
  }

  void read_question(const std::string& answers, const std::optional<std::string>& impossible,
                     Example& example) {
    try {
      require_input(example.id.empty() || ids_.insert(example.id).second,
                    "{}: an earlier question has the same id", example.place());
      const auto json = nlohmann::json::parse(answers);
      read_answers(task_, JsonPart(json, example.place()), impossible, example);
    } catch (const InputError& error) {
      throw BadRow(error.what());
    }
  }

  void read_choices(TableRow& row, Example& example) {
    if (places_.choices.empty()) return;
    if (places_.list_of_choices)
      example.choices = std::move(row.lists[places_.choices[0]]);
    else
      for (const std::size_t place : places_.choices)
        example.choices.push_back(std::move(*row.cells[place]));
    if (example.choices.size() < 2)
      throw BadRow(fmt::format(
          "{}: {} to choose from, expected at least 2{}", example.place(), example.choices.size(),
          places_.list_of_choices ? "" : "; name a column for each in task.columns.choices"));
    if (!row.names.empty() && row.names.size() != example.choices.size())
      throw BadRow(fmt::format("{}: {} to choose from, but {} names of them", example.place(),
                               example.choices.size(), row.names.size()));
    if (places_.label && !task_.labels.empty() && task_.labels.size() != example.choices.size())
      throw BadRow(
          fmt::format("{}: {} to choose from, but task.labels names {}; give a label for each",
                      example.place(), example.choices.size(), task_.labels.size()));
    for (std::size_t i = 0; i < example.choices.size(); ++i)
      if (example.choices[i].empty())
        throw BadRow(fmt::format("{}: choice {} is empty", example.place(), i));
  }

  /// The labels of a text that has any number of them, in one of three forms.
  void read_label_set(TableRow& row, Example& example) const {
    for (std::size_t i = 0; i < places_.labels.size(); ++i)
      if (is_set(*row.cells[places_.labels[i]], places_.labels[i], example))
        example.labels.push_back(*task_.header ? task_.columns.labels[i] : task_.labels[i]);
    if (places_.label && places_.list_of_labels)
      example.labels = std::move(row.lists[*places_.label]);
    else if (places_.label)
      example.labels = split(*row.cells[*places_.label], example);
    example.labelled = places_.label || !places_.labels.empty();
    std::set<std::string_view> seen;
    for (const std::string& label : example.labels) {
      if (label.empty()) throw BadRow(example.place() + ": one of its labels is empty");
      if (seen.insert(label).second) continue;
      if (std::ranges::all_of(example.labels, is_indicator))
        throw BadRow(fmt::format("{}: {}", example.place(), why_no_indicators));
      throw BadRow(fmt::format("{}: has the label '{}' twice", example.place(), printable(label)));
    }
  }

  /// Whether the cell of a label's column says that a text has it.
  bool is_set(const std::string& cell, std::size_t column, const Example& example) const {
    if (is_indicator(cell)) return cell[0] == '1' || cell[0] == 't' || cell[0] == 'T';
    throw BadRow(fmt::format("{}: column '{}' is '{}', expected 0 or 1{}", example.place(),
                             printable(places_.wanted[column].name), printable(cell),
                             header_hint(task_, example)));
  }

  /// The labels between task.label_separator, without the white space around them.
  std::vector<std::string> split(std::string_view cell, const Example& example) const {
    std::vector<std::string> labels;
    if (trimmed(cell).empty()) return labels;
    if (trimmed(cell).starts_with('[') && trimmed(cell).ends_with(']'))
      throw BadRow(
          fmt::format("{}: the label '{}' is a list written as text; write JSON Lines, or "
                      "the labels with '{}' between them",
                      example.place(), printable(cell, 60), printable(*task_.label_separator)));
    while (true) {
      const std::size_t end = cell.find(*task_.label_separator);
      labels.emplace_back(trimmed(cell.substr(0, end)));
      if (end == cell.npos) return labels;
      cell.remove_prefix(end + task_.label_separator->size());
    }
  }

  void read_label(std::string label, const std::vector<std::string>& choices,
                  Example& example) const {
    switch (*task_.kind) {
      case TaskKind::regression: example.value = number(label, example); break;
      case TaskKind::choice: example.choice = choice(label, choices, example); break;
      case TaskKind::embeddings:
        if (example.pair)
          example.value = number(label, example);
        else
          example.label = std::move(label);
        break;
      default: example.label = std::move(label);
    }
  }

  double number(const std::string& text, const Example& example) const {
    const auto value = signed_number_of(text);
    if (!value || !std::isfinite(*value))
      throw BadRow(fmt::format("{}: the label '{}' is no finite number{}{}", example.place(),
                               printable(text), comma_hint(text), header_hint(task_, example)));
    if (std::abs(*value) > max_target)
      throw BadRow(fmt::format("{}: the label '{}' is beyond {:g}; divide the values",
                               example.place(), printable(text), max_target));
    return *value;
  }

  /// The number of the choice that a label names, by the names in its row, else by task.labels.
  std::int64_t choice(const std::string& label, const std::vector<std::string>& in_row,
                      const Example& example) const {
    const auto count = static_cast<std::int64_t>(example.choices.size());
    const std::vector<std::string>& names = in_row.empty() ? task_.labels : in_row;
    const auto found = std::ranges::find(names, label);
    if (std::ranges::count(names, label) == 1) return found - names.begin();
    if (!names.empty())
      throw BadRow(fmt::format("{}: label '{}' names {}; choices: {}{}", example.place(),
                               printable(label), found == names.end() ? "no choice" : "two",
                               list_of_names(names), header_hint(task_, example)));
    const auto value = number_of<std::int64_t>(label);
    if (!value || *value < 0 || *value >= count)
      throw BadRow(fmt::format(
          "{}: label '{}' names no choice; there are {}, numbered from 0 to {}; other names go "
          "into task.labels{}",
          example.place(), printable(label), count, count - 1, header_hint(task_, example)));
    return *value;
  }

  TaskConfig task_;
  Labelled labelled_;
  std::shared_ptr<const std::string> file_;
  Columns places_;
  std::vector<std::string> label_names_;  // in the order of their numbers, where they are known
  std::unique_ptr<TableReader> reader_;
  std::set<std::string> ids_;  // of questions
};

/// Whether a line is a word and its tag, as in CoNLL files.
bool is_tagged_word(std::string_view line) {
  line = trimmed(line);
  const std::size_t blank = line.find_last_of(" \t");
  return blank != line.npos && is_entity_tag(line.substr(blank + 1));
}

/// The form of a file whose first line names the column of the texts, so that it is no text, for
/// messages; empty for another line.
std::string table_form(const TaskConfig& task, const std::string& line) {
  if (task.header == false) return "";
  for (const auto& [separator, format] : {std::pair('\t', "tsv"), {',', "csv"}}) {
    std::vector<std::string> cells = split_cells(line, separator);
    for (std::string& cell : cells)
      if (cell.size() > 1 && cell.front() == '"' && cell.back() == '"')
        cell = cell.substr(1, cell.size() - 2);
    if (cells.size() > 1 && std::ranges::find(cells, *named_columns(task).text) != cells.end())
      return fmt::format(
          "looks like a table, and each line is read as a text with all its columns; end its name "
          "in .{}{}",
          format, task.fills_masks ? "" : fmt::format(", or set task.format to {}", format));
  }
  return "";
}

}  // namespace

void name_options(const TaskColumns& columns, std::vector<WantedColumn>& wanted) {
  for (const auto& [option, name] : given_columns(columns))
    for (WantedColumn& column : wanted)
      if (column.name == name) column.option = "task.columns." + option;
}

void read_table(const TaskConfig& task, const std::filesystem::path& file, TaskFormat format,
                Labelled labelled, ExampleSink& sink) {
  TableExamples rows(task, file, format, labelled);
  sink.take_all([&] { return rows.next(); });
  rows.add_notes(sink.notes);
}

void read_lines(const TaskConfig& task, const std::filesystem::path& file, ExampleSink& sink) {
  const bool words = *task.kind == TaskKind::tokens;
  constexpr const char* tags = "; for lines of a word and its tag set task.format to conll";
  const auto name = std::make_shared<const std::string>(printable_path(file));
  RowLines rows(file, empty_lines(task, Labelled::optional), is_blank,
                words              ? tags
                : task.fills_masks ? "; remove it"
                                   : "; --document is for files of one text");
  std::string first_form;  // what the first line looks like in place of a text
  bool tagged = words;     // whether all lines look so
  sink.take_all([&]() -> std::optional<Example> {
    if (!rows.next(/*one_cell=*/false)) return std::nullopt;
    Example example;
    example.file = name;
    example.line = rows.lines.line();
    check_text(rows.line, example.place());
    if (example.line == 1) {
      first_form = other_form(rows.line);
      if (first_form.empty()) first_form = table_form(task, rows.line);
    }
    tagged &= is_tagged_word(rows.line);
    example.text = std::move(rows.line);
    if (words) example.words = words_of(example.text, word_cut_of(task), example.place());
    return example;
  });
  if (tagged && !task.fills_masks) first_form = fmt::format("each line is read as a text{}", tags);
  if (!first_form.empty()) sink.notes.push_back(*name + ": " + first_form);
}

}  // namespace nystrom
