// The samples of a task in memory (features stay in their files), in the order of its files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/checksum.h"
#include "data/tasks/encoder.h"
#include "data/tasks/feature_file.h"

namespace nystrom {

/// What a model's output is compared with.
enum class TaskTarget {
  classes,       ///< one of n: softmax over n outputs
  value,         ///< a number: one output
  word_classes,  ///< one of n at every word
  span,          ///< two positions
  choice,        ///< one of the rows
  none,          ///< features alone
};

class TaskDataset {
 public:
  /// Reads and encodes the examples of the files that `patterns` match. With `keep_examples` their
  /// text stays too, as questions need for answers. InputError of the first thing wrong,
  /// "file:line: …".
  static TaskDataset read(const TaskEncoder& encoder, const std::vector<std::string>& patterns,
                          Labelled labelled, bool keep_examples);
  /// From examples in memory, for tests and single predictions.
  static TaskDataset from(const TaskEncoder& encoder, const std::vector<Example>& examples,
                          bool keep_examples);
  /// Opens feature files; all must have one width and the same kind of target. Classes are
  /// numbered: `labels` may name them; empty: as many as the largest number asks for, called "0",
  /// "1", …. Sequences longer than `sequence_length` are cut behind and counted.
  static TaskDataset read_features(const TaskConfig& task, const std::vector<std::string>& patterns,
                                   Labelled labelled, const LabelSet& labels,
                                   std::int64_t sequence_length);

  TaskDataset(TaskDataset&&) noexcept;
  TaskDataset& operator=(TaskDataset&&) noexcept;
  ~TaskDataset();

  TaskKind kind() const;
  TaskTarget target() const;
  /// Resolved.
  const TaskConfig& task() const;
  /// Empty where outputs are not labels.
  const LabelSet& labels() const;
  /// Outputs of the model's head: labels, 1 for a number and for choices, 2 for spans, 0 for none.
  std::int64_t outputs() const;

  std::int64_t size() const;      ///< samples
  std::int64_t examples() const;  ///< at most as many
  const EncodedSample& sample(std::int64_t index) const;
  /// Tokens of its longest row, or steps.
  std::int64_t length(std::int64_t index) const;
  /// Error unless examples were kept.
  const Example& example(std::int64_t index) const;
  bool keeps_examples() const;

  /// Width of the features; 0 for text.
  std::int64_t width() const;
  /// Fills `features` with length(index) · width() numbers.
  void read_sample_features(std::int64_t index, std::span<float> features) const;

  std::int32_t pad_id() const;
  const EncodingCounts& counts() const;
  const SkippedRows& skipped() const;
  /// Of the inputs of every example (not its label), to find equal ones.
  const std::vector<Digest>& digests() const;

 private:
  struct State;
  explicit TaskDataset(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace nystrom
