// Sentences from CoNLL files: a word and its label a line, and an empty line after each sentence.
#include <charconv>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/example_files.h"
#include "data/tasks/line_reader.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {
namespace {

constexpr std::string_view document_separator = "-DOCSTART-";

std::vector<std::string_view> split_at_blanks(std::string_view line) {
  constexpr const char* blanks = " \t";
  std::vector<std::string_view> parts;
  for (std::size_t begin = line.find_first_not_of(blanks); begin != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
    parts.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(blanks, end);
  }
  return parts;
}

class ConllExamples : public ExampleReader {
 public:
  ConllExamples(const TaskConfig& task, const std::filesystem::path& file, Labelled labelled)
      : labelled_(labelled),
        task_(task),
        file_(std::make_shared<std::string>(printable_path(file))),
        lines_(file),
        word_(column("text", task.columns.text)),
        label_(column("label", task.columns.label)) {}

  std::optional<Example> next() override {
    Example example;
    example.file = file_;
    std::string line;
    while (lines_.next(line)) {
      const auto parts = split_at_blanks(line);
      const bool separator = !parts.empty() && parts[0] == document_separator;
      if ((parts.empty() || separator) && example.words.empty()) continue;
      if (parts.empty() || separator) break;
      if (example.words.empty()) example.line = lines_.line();
      try {
        add(line, parts, example);
      } catch (const BadRow&) {
        skip_sentence();
        throw;
      }
    }
    if (example.words.empty()) return std::nullopt;
    example.labelled = !example.word_labels.empty();
    return example;
  }

 private:
  /// The column number, from 0; nothing if no column is named.
  std::optional<std::size_t> column(const char* name,
                                    const std::optional<std::string>& given) const {
    if (!given) return std::nullopt;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), number);
    require_input(error == std::errc() && end == given->data() + given->size() && number >= 1,
                  "task.columns.{} '{}' is no number; columns of CoNLL files are numbers from 1",
                  name, printable(*given));
    return number - 1;
  }

  void skip_sentence() {
    for (std::string line; lines_.next(line) && !split_at_blanks(line).empty();) continue;
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
    example.word_labels.emplace_back(parts[label]);
  }

  Labelled labelled_;
  TaskConfig task_;
  std::shared_ptr<const std::string> file_;
  LineReader lines_;
  std::optional<std::size_t> word_, label_;
  std::size_t width_ = 0;
};

}  // namespace

void check_tag(const TaskConfig& task, std::string_view tag, const std::string& place) {
  if (task.metric == TaskMetric::accuracy || is_entity_tag(tag)) return;
  throw BadRow(
      fmt::format("{}: '{}' is no entity tag; expected O, or B-, I-, E- or S- and a type (for "
                  "labels of another kind set "
                  "task.metric to accuracy)",
                  place, printable(tag)));
}

std::unique_ptr<ExampleReader> open_conll(const TaskConfig& task, const std::filesystem::path& file,
                                          Labelled labelled) {
  return std::make_unique<ConllExamples>(task, file, labelled);
}

}  // namespace nystrom
