// Examples of tasks as in their files: text, before tokenization.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "data/tasks/task_config.h"
#include "data/text/table_reader.h"

namespace nystrom {

/// An answer in a context.
struct Answer {
  std::string text;
  std::int64_t begin = 0;  ///< byte offset in the context (files count characters)
};

/// One example. The task's kind determines which members are set.
struct Example {
  /// The name of its file, for messages. Null for an example without a file.
  std::shared_ptr<const std::string> file;
  std::int64_t line = 0;    ///< line where it begins, from 1; 0 for squad and cifar10
  std::int64_t row = 0;     ///< TableRow::number
  std::string id;           ///< may be empty; of a whole file its path
  bool named = false;       ///< whether its id is that of task.columns.id
  bool whole_file = false;  ///< whether it is a document of its own
  /// Classification and regression: the text. Questions: the question. Choice: the text before the
  /// choices.
  std::string text;
  /// Classification of images: the grey value of each pixel, row by row, in place of the text.
  std::vector<std::uint8_t> pixels;
  /// The second text. Questions: the context. Choice: the beginning that all choices share.
  std::optional<std::string> pair;
  std::vector<std::string> words;      ///< for tokens
  std::vector<std::string> choices;    ///< choice: at least 2
  std::vector<std::string> negatives;  ///< embeddings: texts unlike the first
  /// Classification: the label as in the file. Nothing if unlabelled.
  std::optional<std::string> label;
  /// Tokens: one a word, or empty if unlabelled. With task.multi_label: those of the text.
  std::vector<std::string> labels;
  std::optional<double> value;         ///< regression, and embeddings of pairs; finite
  std::optional<std::int64_t> choice;  ///< choice: number of the right one, from 0
  /// Questions: all right answers. Empty: not answerable, or unlabelled.
  std::vector<Answer> answers;
  bool labelled = false;  ///< whether the file has a label for it

  /// The place of the example, for messages: "train.tsv:17", "columns.json: row 7", "dev.json:
  /// question 'id'", "batch.bin: image 7", or "the example 'its text'".
  std::string place() const;
};

/// The largest size of a number that a model learns: f32 must hold its square.
inline constexpr double max_target = 1e18;

/// The number of examples with some property.
struct Occurrences {
  std::int64_t count = 0;
  std::string first;  ///< place of the first

  /// Counts `example`.
  void add(const Example& example) {
    if (count++ == 0) first = example.place();
  }
  /// Counts later ones.
  void add(const Occurrences& later) {
    if (count == 0) first = later.first;
    count += later.count;
  }
};

/// "; if this line names the columns, …" for the end of a message about a label in the first line
/// of a file without a header. Otherwise empty.
std::string header_hint(const TaskConfig& task, const Example& example);

/// Whether examples must have labels.
enum class Labelled {
  required,
  optional,  ///< for predictions: labels may be missing or wrong, and are not read
  /// Of features, for pretraining: labels are no targets and may be missing. Where they are there,
  /// they part the examples as those of fine-tuning, and so do groups.
  for_parts,
};

/// Whether examples to train on must have labels: those of vectors may lack them.
inline Labelled needed_labels(const TaskConfig& task) {
  return task.kind == TaskKind::embeddings ? Labelled::optional : Labelled::required;
}

/// A hash of an example's inputs, with their boundaries.
Digest digest_of(const Example& example);

/// How many of `digests` are among `known`.
std::int64_t count_known(const std::vector<Digest>& digests, std::vector<Digest> known);

/// Files, and which of their examples count.
struct ExampleSource {
  std::vector<std::string> patterns;
  /// Whether the example with this number, from 0 over all files, counts. Null: all do.
  std::function<bool(std::int64_t)> filter;
  /// Whether rows that give no example are counted as left out. Of sources that share files one
  /// does.
  bool counts_unreadable = true;

  ExampleSource(std::vector<std::string> files,  // NOLINT: files are the usual source
                std::function<bool(std::int64_t)> counts = {})
      : patterns(std::move(files)), filter(std::move(counts)) {}
  ExampleSource(std::initializer_list<std::string> files) : patterns(files) {}
  /// Whether the example with this number counts.
  bool takes(std::int64_t number) const { return !filter || filter(number); }
};

/// The examples to train on, and those to validate on.
struct TaskSources {
  ExampleSource train, validation;
};

/// The sources of a resolved task: the files of task.train and task.validation. With
/// task.validation_fraction a part of task.train's examples is the validation set:
/// - Equal inputs stay on one side. For questions these are those on one context, for embeddings
///   those with one first text, and for bags also those of one task.columns.group.
/// - Of each label alike (with task.multi_label: of the rarest label of a text), and in all as many
///   as the fraction says, as far as equal inputs allow. A label keeps an example to train on.
/// - The seed and the inputs alone decide, not their order.
///
/// Reads the files once for that. `labelled` is for features: for_parts reads what pretraining
/// needs. Throws an InputError where no example is held out.
TaskSources task_sources(const TaskConfig& task, std::int64_t seed,
                         Labelled labelled = Labelled::required);

/// Throws an InputError if task.columns or task.features_folder names what no file of the task has:
/// neither those to train on nor those to validate on are tables. `task` is resolved.
void require_read_columns(const TaskConfig& task);

/// The use of an example.
using ExampleUse = std::function<void(Example&&)>;
/// The use of a BadRow "file:line: …" of reading an example, or of its use. Called where the
/// row is caught, so that `throw;` ends the reading.
using BadRowUse = std::function<void(const BadRow&)>;

/// Reads the files that `patterns` match (match_files in data/text/match_files.h; folders for that
/// format), one after another, in the memory of one example (squad: of the file). Returns what a
/// user should know of how the files were read, a sentence each. `task` is resolved and not of kind
/// features. Without task.format, the ending of a name (before .gz or .zst) selects the format:
/// - .tsv, .csv, .jsonl, .json: tables (table_format_of in data/text/table_reader.h)
/// - .json: SQuAD, for questions
/// - .conll, .conllu, and for tokens also .tsv, .txt: CoNLL
/// - .bin: CIFAR-10, and .npy: Pathfinder, for classification
/// - .txt: lines of text, if labels are optional
/// For the format documents, `patterns` may also name folders: every file below them is a text.
/// `most`: of the examples only the first. Throws an InputError for a file without examples, and
/// where reading cannot continue.
std::vector<std::string> read_examples(
    const TaskConfig& task, const std::vector<std::string>& patterns, Labelled labelled,
    const ExampleUse& use, const BadRowUse& bad,
    std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// The rows that were skipped.
struct SkippedRows {
  std::int64_t count = 0;
  std::string first;               ///< message of the first
  std::vector<std::string> notes;  ///< of read_examples
};

/// Appends the notes of a set of examples that `lines` does not have yet: sets that share a file
/// share its notes.
void add_new_notes(std::vector<std::string>& lines, const std::vector<std::string>& notes);

/// Remarks for the user on them: the notes, and "2 rows left out; the first: …".
std::vector<std::string> warnings_of(const SkippedRows& skipped);

/// A message: "train.tsv: none of its 7 examples can be read; the first: …".
std::string describe_unreadable(const std::vector<std::string>& patterns,
                                const SkippedRows& skipped);

/// Calls use(example) for every example of the source, in order. As task.bad_rows says, a bad row
/// is thrown or counted in `skipped`.
void for_each_example(const TaskConfig& task, const ExampleSource& source, Labelled labelled,
                      SkippedRows& skipped, const ExampleUse& use);

}  // namespace nystrom
