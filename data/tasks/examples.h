// Examples of tasks as their files have them: text, not yet tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/table_reader.h"
#include "data/tasks/task_config.h"

namespace nystrom {

/// An answer as it stands in the context.
struct Answer {
  std::string text;
  std::int64_t begin = 0;  ///< byte in the context (files count characters)
};

/// One example. Which members it has depends on the task's kind.
struct Example {
  std::shared_ptr<const std::string>
      file;               ///< its name, for messages; null for an example that comes from no file
  std::int64_t line = 0;  ///< where it begins, from 1; 0 for squad and cifar10
  std::string id;         ///< empty where there is none
  std::string
      text;  ///< classification, regression; questions: the question; choice: what comes before
  std::vector<std::uint8_t> pixels;  ///< classification of images: the grey of each pixel, row by
                                     ///< row, instead of the text
  std::optional<std::string>
      pair;  ///< the second text; questions: the context; choice: how every choice begins
  std::vector<std::string> words;    ///< tokens
  std::vector<std::string> choices;  ///< choice: at least 2
  std::optional<std::string>
      label;  ///< classification: as the file has it; nothing where unlabelled
  std::vector<std::string> word_labels;  ///< tokens: one a word, or none at all where unlabelled
  std::optional<double> value;           ///< regression; finite
  std::optional<std::int64_t> choice;    ///< choice: the right one, from 0
  std::vector<Answer>
      answers;  ///< questions: all that count as right; none: not answerable, or unlabelled
  bool labelled = false;  ///< whether the file says what is right

  /// "train.tsv:17", "dev.json: question 'id'", "batch.bin: image 7", or "the example 'its text'";
  /// for messages.
  std::string place() const;
};

/// How many examples something is true of.
struct Occurrences {
  std::int64_t count = 0;
  std::string first;  ///< the place of the first

  void add(const Example& example) {
    if (count++ == 0) first = example.place();
  }
};

/// "; if this line names the columns, …" for the end of a message about a label in the first line
/// of a file that is read as one without a header, or nothing.
std::string header_hint(const TaskConfig& task, const Example& example);

/// Whether what is to be predicted must be there.
enum class Labelled {
  required,
  optional,  ///< for predictions: it may be missing or wrong, and is not read
};

/// Reads examples one after another in memory of one (squad: of the file).
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;
  /// The next example, nothing after the last. BadRow "file:line: …" for one that cannot be read:
  /// next() then goes on behind it. InputError for what ends the reading.
  virtual std::optional<Example> next() = 0;
};

/// Opens the files that `patterns` match (data/text/text.h match_files; folders for that format),
/// one behind the other, as examples of a resolved task that is not of features. Without
/// task.format the ending of a name (before .gz or .zst) tells the form: .tsv, .csv, .jsonl; .json
/// is SQuAD's for questions; .conll, .tsv and .txt are CoNLL's for tokens; .bin are CIFAR-10's,
/// .npy Pathfinder's for classification; .txt with optional labels is lines of text. A file without
/// any example is an InputError.
std::unique_ptr<ExampleReader> open_examples(const TaskConfig& task,
                                             const std::vector<std::string>& patterns,
                                             Labelled labelled);

/// The rows that were left out.
struct SkippedRows {
  std::int64_t count = 0;
  std::string first;  ///< the message of the first
};

/// "train.tsv: none of its 7 examples can be read; the first: …"
std::string describe_unreadable(const std::vector<std::string>& patterns,
                                const SkippedRows& skipped);

/// Calls use(Example&&) for every example of the files, in order. Bad rows end it or are counted in
/// `skipped`, as task.bad_rows says.
template <class Use>
void for_each_example(const TaskConfig& task, const std::vector<std::string>& patterns,
                      Labelled labelled, SkippedRows& skipped, const Use& use) {
  const std::unique_ptr<ExampleReader> reader = open_examples(task, patterns, labelled);
  while (true) {
    try {
      std::optional<Example> example = reader->next();
      if (!example) return;
      use(std::move(*example));
    } catch (const BadRow& error) {
      if (task.bad_rows != BadRows::skip) throw;
      if (skipped.count++ == 0) skipped.first = error.what();
    }
  }
}

}  // namespace nystrom
