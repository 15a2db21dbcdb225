// The samples of a task in memory, in the order of its files. Features stay in their files.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "data/tasks/bags.h"
#include "data/tasks/encoder.h"
#include "data/tasks/feature_file.h"
#include "data/tasks/word_cut.h"

namespace nystrom {

/// The target that a model's output is compared with.
enum class TaskTarget {
  classes,       ///< one of n classes: softmax over n outputs
  label_set,     ///< any number of n classes: a sigmoid for each of n outputs
  value,         ///< a number: one output
  word_classes,  ///< one of n classes for every word
  span,          ///< two positions
  choice,        ///< one of the rows
  none,          ///< no target: features without labels
};

/// The encoded samples of a task.
class TaskDataset {
 public:
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

  /// Reads and encodes the examples of a source. With `keep_examples` their
  /// text is kept too, because questions need it for answers. Throws an InputError "file:line: …"
  /// for the first fault.
  static TaskDataset read(const TaskEncoder& encoder, const ExampleSource& source,
                          Labelled labelled, bool keep_examples);
  /// Encodes examples in memory, for tests and single predictions.
  static TaskDataset from(const TaskEncoder& encoder, const std::vector<Example>& examples,
                          bool keep_examples);
  /// Opens feature files, which must all have one width and one kind of target. They are files of
  /// many samples, files of one bag each (without targets), or tables of bags. Classes are
  /// numbers; `labels` may name them. If empty, they are "0", "1", … up to the largest number.
  /// Samples longer than `sequence_length` are cut at the end and counted. Bags are read whole,
  /// unless the task's own files hold samples.
  static TaskDataset read_features(const TaskConfig& task, const ExampleSource& source,
                                   Labelled labelled, const LabelSet& labels,
                                   std::int64_t sequence_length);

  /// Opens the files of bags, as read_bags returns them. Their labels must be in `labels`. `notes`
  /// are added to those of skipped(). Of a bag at most `longest` rows are used. Throws an
  /// InputError for files of other widths.
  static TaskDataset of_bags(const TaskConfig& task, const std::vector<Bag>& bags,
                             Labelled labelled, const LabelSet& labels,
                             const std::vector<std::string>& notes = {},
                             std::int64_t longest = unlimited);

  TaskKind kind() const { return *task_.kind; }
  TaskTarget target() const { return target_; }
  /// The resolved task.
  const TaskConfig& task() const { return task_; }
  /// The labels; empty if outputs are not labels.
  const LabelSet& labels() const { return labels_; }
  /// The number of outputs of the model's head: one a label, 1 for a number and for choices, 2 for
  /// spans, 0 without a target.
  std::int64_t outputs() const;

  std::int64_t size() const { return std::ssize(samples_); }
  /// The number of examples, at most size().
  std::int64_t examples() const { return counts_.examples; }
  const EncodedSample& sample(std::int64_t index) const;
  /// Whether a sample is the first of its example.
  bool begins_example(std::int64_t index) const {
    return index == 0 || sample(index).example != sample(index - 1).example;
  }
  /// The number of tokens of a sample's longest row, or its steps.
  std::int64_t length(std::int64_t index) const;
  /// An example by its index. Throws an Error unless examples were kept.
  const Example& example(std::int64_t index) const;

  /// The width of the features; 0 for text.
  std::int64_t width() const;
  /// The first file of features. Throws an Error for text.
  const std::filesystem::path& first_file() const;
  /// Fills `features` [length(index), width()], f32 or for bags feature_dtype(), contiguous and on
  /// the CPU.
  void read_rows(std::int64_t index, Tensor features) const;
  /// Whether the samples are bags, one a file.
  bool has_bags() const { return !bags_.empty(); }
  /// A bag by its index.
  const BagFile& bag(std::int64_t index) const;
  /// The type in which all features are read: f16 if they are those of bags in f16, else f32.
  DType feature_dtype() const;
  /// The name of a sample of features: the id of a bag, or "sample 7".
  std::string sample_name(std::int64_t index) const;
  /// The factor of a sample's loss in training.
  double weight(std::int64_t index) const;

  const EncodingCounts& counts() const { return counts_; }
  const SkippedRows& skipped() const { return skipped_; }
  /// Tokens: how the examples are cut into words.
  WordCut word_cut() const { return words_.cut(); }
  /// Hashes of the inputs of every example as the model reads them, without its label, to find
  /// duplicates.
  const std::vector<Digest>& digests() const { return digests_; }

 private:
  TaskDataset(const TaskEncoder& encoder, bool keep_examples);
  explicit TaskDataset(const TaskConfig& features) : task_(features) {}

  void add(const TaskEncoder& encoder, Example&& example);
  void add_file(const std::filesystem::path& path, Labelled labelled, std::int64_t sequence_length,
                const std::function<bool()>& takes_next);
  void add_bag(const Bag& bag, std::int64_t longest);

  /// Where a sample of features comes from.
  struct Source {
    std::size_t file;     // in files_ or bags_
    std::int64_t number;  // in its file
    std::string name{};   // of a bag
    double weight = 1;
  };
  void add_features(EncodedSample sample, std::int64_t length, std::int64_t kept,
                    const Digest& digest, Source source);

  TaskConfig task_;
  TaskTarget target_ = TaskTarget::none;
  LabelSet labels_;
  bool keeps_examples_ = false;
  std::vector<EncodedSample> samples_;
  std::vector<std::int64_t> lengths_;
  std::vector<Example> kept_;
  std::vector<Digest> digests_;
  EncodingCounts counts_;
  SkippedRows skipped_;
  WordCutFinder words_;
  std::vector<FeatureFile> files_;
  std::vector<BagFile> bags_;
  std::vector<Source> sources_;  // of each sample; empty for texts
};

}  // namespace nystrom
