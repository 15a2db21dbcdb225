// Sentences from CoNLL files: a word and its label a line, and an empty line after each sentence.
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/entities.h"
#include "data/tasks/example_files.h"
#include "data/text/line_reader.h"
#include "data/text/table_cells.h"

namespace nystrom {
namespace {

constexpr std::string_view document_separator = "-DOCSTART-";

std::vector<std::string_view> split_at_blanks(std::string_view line) {
  return words_between(line, " \t");
}

class ConllExamples {
 public:
  ConllExamples(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled)
      : labelled_(labelled),
        task_(task),
        file_(std::make_shared<std::string>(printable_path(file))),
        lines_(file),
        word_(column("text", task.columns.text)),
        label_(column("label", task.columns.label)) {
    look_ahead(file);
  }

  /// The next sentence; nothing after the last. Continues behind a BadRow.
  std::optional<Example> next() {
    Example example;
    example.file = file_;
    std::string line;
    while (lines_.next(line)) {
      const auto parts = parts_of(line);
      if (example.words.empty() && is_comment(line, parts)) continue;
      if (is_conllu_ && is_no_word(parts)) continue;
      if (ends_sentence(parts) && example.words.empty()) continue;
      if (ends_sentence(parts)) break;
      if (example.words.empty()) example.line = lines_.line();
      try {
        add(line, parts, example);
      } catch (const BadRow&) {
        skip_sentence();
        throw;
      }
    }
    if (example.words.empty()) return std::nullopt;
    require_no_numbers(example);
    example.labelled = !example.labels.empty();
    return example;
  }

 private:
  /// The column number, from 0; nothing if no column is named.
  std::optional<std::size_t> column(const char* name,
                                    const std::optional<std::string>& given) const {
    if (!given) return std::nullopt;
    const auto number = number_of<std::size_t>(*given);
    require_input(number >= 1u,
                  "task.columns.{} '{}' is no number; columns of CoNLL files are numbers from 1: "
                  "set task.columns.text and label to these, or null for the first and the last",
                  name, printable(*given));
    return *number - 1;
  }

  /// Whether a line stands between sentences.
  static bool ends_sentence(const std::vector<std::string_view>& parts) {
    return parts.empty() || parts[0] == document_separator;
  }

  void skip_sentence() {
    for (std::string line; lines_.next(line) && !ends_sentence(split_at_blanks(line));) continue;
  }

  /// The first line of a word tells the number of columns, and whether they are those of CoNLL-U.
  void look_ahead(const std::filesystem::path& file) {
    LineReader lines(file);
    for (std::string line; lines.next(line);) {
      const std::vector<std::string_view> parts = split_at_blanks(line);
      if (line.starts_with('#') || ends_sentence(parts)) continue;
      const std::vector<std::string> cells = split_cells(line, '\t');
      is_conllu_ = cells.size() == 10 && starts_with_digit(cells[0]);
      word_width_ = is_conllu_ ? cells.size() : parts.size();
      const std::size_t label = label_.value_or(parts.size() - 1);
      is_tagged_ =
          label != word_.value_or(0) && label < parts.size() && is_entity_tag(parts[label]);
      break;
    }
    require_input(!is_conllu_ || word_,
                  "{}: the columns are those of CoNLL-U; set task.columns.text: 2, and "
                  "task.columns.label: 4 for the parts of speech",
                  *file_);
  }

  std::vector<std::string_view> parts_of(std::string_view line) const {
    if (!is_conllu_ || line.starts_with('#')) return split_at_blanks(line);
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; !line.empty() && begin <= line.size();) {
      const std::size_t end = std::min(line.find('\t', begin), line.size());
      parts.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  }

  /// Whether a line before the words of a sentence is a comment: it begins with #, and is no word
  /// by its columns, its form or its label.
  bool is_comment(const std::string& line, const std::vector<std::string_view>& parts) const {
    if (!line.starts_with('#')) return false;
    if (is_conllu_ || parts.size() != word_width_) return true;
    const bool assigns =
        parts.size() > 1 && (parts[1] == "=" || (parts.size() > 2 && parts[2] == "="));
    const bool keyword = parts[0] == "#" && parts.size() > 1 &&
                         (parts[1] == "id" || parts[1] == "newdoc" || parts[1] == "newpar" ||
                          parts[1] == "sent_id" || parts[1] == "text");
    const std::size_t label = label_.value_or(parts.size() - 1);
    const bool no_tag = task_.metric != TaskMetric::accuracy && is_tagged_ &&
                        label < parts.size() && !is_entity_tag(parts[label]);
    return assigns || keyword || no_tag;
  }

  static bool starts_with_digit(std::string_view text) {
    return !text.empty() && text[0] >= '0' && text[0] <= '9';
  }

  /// Whether a line of CoNLL-U is a contraction (1-2), whose words follow, or an empty node (8.1).
  static bool is_no_word(const std::vector<std::string_view>& parts) {
    return !parts.empty() && starts_with_digit(parts[0]) &&
           parts[0].find_first_of("-.") != std::string_view::npos;
  }

  /// Throws an InputError if the words of the first sentences count them, 1 2 3, and no column is
  /// named. Three words tell, be they of one sentence or of several.
  void require_no_numbers(const Example& example) {
    if (word_ || !counted_) return;
    const auto counts_from = [&](std::size_t from) {
      for (std::size_t i = 0; i < example.words.size(); ++i)
        if (example.words[i] != std::to_string(i + from)) return false;
      return true;
    };
    if (!counts_from(0) && !counts_from(1)) return counted_.reset();
    *counted_ += example.words.size();
    require_input(*counted_ < 3, "{}: the first column numbers the words; set task.columns.text: 2",
                  example.place());
  }

  void add(const std::string& line, const std::vector<std::string_view>& parts, Example& example) {
    const std::string place = fmt::format("{}:{}", *file_, lines_.line());
    check_text(line, place);
    if (width_ == 0) width_ = parts.size();
    if (parts.size() != width_)
      throw BadRow(fmt::format("{}: the line has {} column{}, those before it {}", place,
                               parts.size(), parts.size() == 1 ? "" : "s", width_));
    const std::size_t word = word_.value_or(0), label = label_.value_or(width_ - 1);
    require_input(word < width_ && label < width_,
                  "{}: the line has {} columns; task.columns asks for {}", place, width_,
                  std::max(word, label) + 1);
    example.words.emplace_back(parts[word]);
    if (labelled_ == Labelled::optional) return;
    require_input(label != word, "{}: the line has no label after the word '{}'", place,
                  printable(parts[word]));
    check_tag(task_, parts[label], place);
    example.labels.emplace_back(parts[label]);
  }

  Labelled labelled_;
  const TaskConfig& task_;
  std::shared_ptr<const std::string> file_;
  LineReader lines_;
  std::optional<std::size_t> word_, label_;
  std::size_t width_ = 0;
  std::size_t word_width_ = 0;  // columns of the file's first word
  bool is_conllu_ = false;
  bool is_tagged_ = false;                  // whether its first word has an entity tag
  std::optional<std::size_t> counted_ = 0;  // words that count; none once a sentence does not
};

}  // namespace

void check_tag(const TaskConfig& task, std::string_view tag, const std::string& place) {
  if (task.metric == TaskMetric::accuracy || is_entity_tag(tag)) return;
  if (!tag.empty() && tag.find_first_not_of("0123456789") == tag.npos)
    throw BadRow(
        fmt::format("{}: the label '{}' is a number; name the labels in the order of their "
                    "numbers: task.labels: [O, B-PER, I-PER]",
                    place, tag));
  throw BadRow(
      fmt::format("{}: '{}' is no entity tag; expected O, or B-, I-, E-, S-, L-, U- or M- and a "
                  "type, as B-NAME (for labels of another kind set task.metric to accuracy)",
                  place, printable(tag)));
}

void read_conll(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled,
                ExampleSink& sink) {
  ConllExamples sentences(task, file, labelled);
  sink.take_all([&] { return sentences.next(); });
}

}  // namespace nystrom
