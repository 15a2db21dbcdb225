// Examples from tables, one a row.
#include <charconv>
#include <cmath>
#include <limits>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/blanks.h"
#include "data/tasks/entities.h"
#include "data/tasks/example_files.h"
#include "data/tasks/labels.h"
#include "data/tasks/line_reader.h"

namespace nystrom {
namespace {

class TableExamples : public ExampleReader {
 public:
  TableExamples(const TaskConfig& task, const std::filesystem::path& file, TaskFormat format,
                Labelled labelled)
      : task_(task),
        labelled_(labelled),
        file_(std::make_shared<std::string>(printable_path(file))),
        places_(columns(format)),
        reader_(file, format, *task.header, places_.wanted) {}

  std::optional<Example> next() override {
    auto row = reader_.next();
    if (!row) return std::nullopt;
    Example example;
    example.file = file_;
    example.line = row->line;
    if (places_.id) example.id = row->cells[*places_.id].value_or("");
    if (*task_.kind == TaskKind::tokens)
      read_words(*row, example);
    else
      read_texts(*row, example);
    return example;
  }

 private:
  /// The positions of an example's parts in a row.
  struct Columns {
    std::vector<WantedColumn> wanted;
    std::optional<std::size_t> text, pair, label, id;
    std::vector<std::size_t> choices, negatives;
    bool list_of_choices = false;
  };

  Columns columns(TaskFormat format) const {
    const TaskColumns names = named_columns(task_);
    const TaskKind kind = *task_.kind;
    Columns places;
    const auto want = [&](const std::string& name, bool required, bool list = false) {
      places.wanted.push_back({name, required, list});
      return places.wanted.size() - 1;
    };
    const bool words = kind == TaskKind::tokens;
    require_input(kind != TaskKind::questions || labelled_ == Labelled::optional,
                  "{}: questions with answers are read from SQuAD's JSON (task.format squad)",
                  *file_);
    places.text = want(*names.text, true, words);
    if (names.pair) places.pair = want(*names.pair, true);
    const bool scored = kind == TaskKind::embeddings && names.label;
    if (labelled_ == Labelled::required || scored) places.label = want(*names.label, true, words);
    if (names.id) places.id = want(*names.id, true);
    places.list_of_choices = format == TaskFormat::jsonl && names.choices.size() == 1;
    for (const std::string& name : names.choices)
      places.choices.push_back(want(name, true, places.list_of_choices));
    for (const std::string& name : names.negatives) places.negatives.push_back(want(name, true));
    return places;
  }

  void read_words(TableRow& row, Example& example) {
    example.words = std::move(row.lists[*places_.text]);
    if (example.words.empty()) throw BadRow(example.place() + ": the list of words is empty");
    for (const std::string& word : example.words)
      if (word.empty()) throw BadRow(example.place() + ": a word is empty");
    if (!places_.label) return;
    example.word_labels = std::move(row.lists[*places_.label]);
    example.labelled = true;
    if (example.word_labels.size() != example.words.size())
      throw BadRow(fmt::format("{}: there are {} words but {} labels", example.place(),
                               example.words.size(), example.word_labels.size()));
    for (const std::string& tag : example.word_labels) check_tag(task_, tag, example.place());
  }

  void read_texts(TableRow& row, Example& example) {
    example.text = std::move(*row.cells[*places_.text]);
    if (places_.pair) example.pair = std::move(row.cells[*places_.pair]);
    read_choices(row, example);
    for (const std::size_t place : places_.negatives)
      example.negatives.push_back(std::move(*row.cells[place]));
    if (!places_.label) return;
    std::string& label = *row.cells[*places_.label];
    if (label.empty())
      throw BadRow(fmt::format("{}: the label (column '{}') is empty", example.place(),
                               printable(places_.wanted[*places_.label].name)));
    example.labelled = true;
    read_label(std::move(label), example);
  }

  void read_choices(TableRow& row, Example& example) {
    if (places_.choices.empty()) return;
    if (places_.list_of_choices)
      example.choices = std::move(row.lists[places_.choices[0]]);
    else
      for (const std::size_t place : places_.choices)
        example.choices.push_back(std::move(*row.cells[place]));
    if (example.choices.size() < 2)
      throw BadRow(fmt::format("{}: {} to choose from, expected at least 2", example.place(),
                               example.choices.size()));
    if (places_.label && !task_.labels.empty() && task_.labels.size() != example.choices.size())
      throw BadRow(
          fmt::format("{}: {} to choose from, but task.labels names {}; give a label for each",
                      example.place(), example.choices.size(), task_.labels.size()));
    for (std::size_t i = 0; i < example.choices.size(); ++i)
      if (example.choices[i].empty())
        throw BadRow(fmt::format("{}: choice {} is empty", example.place(), i));
  }

  void read_label(std::string label, Example& example) const {
    switch (*task_.kind) {
      case TaskKind::regression: example.value = number(label, example); break;
      case TaskKind::choice: example.choice = choice(label, example); break;
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
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] =
        std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, value);
    if (error != std::errc() || stop != end || !std::isfinite(value))
      throw BadRow(fmt::format("{}: the label '{}' is no finite number{}", example.place(),
                               printable(text), header_hint(task_, example)));
    if (std::abs(value) > std::numeric_limits<float>::max())
      throw BadRow(
          fmt::format("{}: the label '{}' is no finite number in f32, which ends at 3.4e38",
                      example.place(), printable(text)));
    return value;
  }

  std::int64_t choice(const std::string& label, const Example& example) const {
    const auto count = static_cast<std::int64_t>(example.choices.size());
    for (std::size_t i = 0; i < task_.labels.size(); ++i)
      if (task_.labels[i] == label) return static_cast<std::int64_t>(i);
    if (!task_.labels.empty())
      throw BadRow(fmt::format("{}: label '{}' names no choice; {}{}", example.place(),
                               printable(label), describe(LabelSet(task_.labels)),
                               header_hint(task_, example)));
    std::int64_t value = 0;
    const char* const end = label.data() + label.size();
    const auto [stop, error] = std::from_chars(label.data(), end, value);
    if (error != std::errc() || stop != end || value < 0 || value >= count)
      throw BadRow(fmt::format(
          "{}: label '{}' names no choice; there are {}, numbered from 0 to {}; other names go "
          "into task.labels{}",
          example.place(), printable(label), count, count - 1, header_hint(task_, example)));
    return value;
  }

  TaskConfig task_;
  Labelled labelled_;
  std::shared_ptr<const std::string> file_;
  Columns places_;
  TableReader reader_;
};

class LineExamples : public ExampleReader {
 public:
  LineExamples(const TaskConfig& task, const std::filesystem::path& file)
      : words_(*task.kind == TaskKind::tokens),
        skips_blank_lines_(*task.kind == TaskKind::embeddings),
        file_(std::make_shared<std::string>(printable_path(file))),
        lines_(file) {}

  std::optional<Example> next() override {
    std::string line;
    do {
      if (!lines_.next(line)) return std::nullopt;
    } while (skips_blank_lines_ && is_blank(line));
    Example example;
    example.file = file_;
    example.line = lines_.line();
    check_text(line, example.place());
    if (is_blank(line)) throw BadRow(example.place() + ": the line is empty");
    example.text = std::move(line);
    if (words_)
      for (const TextRange& word : split_words(example.text))
        example.words.push_back(example.text.substr(
            static_cast<std::size_t>(word.begin), static_cast<std::size_t>(word.end - word.begin)));
    return example;
  }

 private:
  bool words_;
  bool skips_blank_lines_;  // between paragraphs
  std::shared_ptr<const std::string> file_;
  LineReader lines_;
};

}  // namespace

std::unique_ptr<ExampleReader> open_table(const TaskConfig& task, const std::filesystem::path& file,
                                          TaskFormat format, Labelled labelled) {
  return std::make_unique<TableExamples>(task, file, format, labelled);
}

std::unique_ptr<ExampleReader> open_lines(const TaskConfig& task,
                                          const std::filesystem::path& file) {
  return std::make_unique<LineExamples>(task, file);
}

}  // namespace nystrom
