// Statistics of a task's data, for `check --data`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "data/tasks/task_dataset.h"
#include "data/tasks/task_scorer.h"

namespace nystrom {

/// Statistics of one data set.
struct TaskSetStatistics {
  EncodingCounts encoding;
  bool may_have_windows = false;  ///< of the kinds of task.windows
  SkippedRows skipped;
  /// Counts of each label (tokens: of words; choices: of right positions).
  std::vector<std::pair<std::string, std::int64_t>> labels;
  std::int64_t without_label = 0;  ///< texts without any label, where several are possible
  /// The label of the first row without a header, if no other row has it. Otherwise empty.
  std::string lone_first_label;
  std::int64_t values = 0;                     ///< number of regression values
  double smallest = 0, mean = 0, largest = 0;  ///< … of these values
  /// The median length of a sample in tokens or steps, before anything was cut.
  double median_length = 0;
  std::int64_t duplicates = 0;      ///< examples with the same inputs as an earlier one
  std::int64_t contradictions = 0;  ///< duplicates with another label
};

/// Statistics of training and validation data.
struct TaskStatistics {
  TaskSetStatistics train, validation;
  std::int64_t overlap = 0;  ///< validation examples with the same inputs as a training example
  /// The scores on the validation data of the best prediction that ignores the input, and what it
  /// predicts.
  TaskScores baseline;
  std::string baseline_prediction;
};

/// Computes the statistics. Both data sets are labelled, and keep examples if they have questions.
TaskStatistics task_statistics(const TaskDataset& train, const TaskDataset& validation);

/// Warnings about the data, one line each. They cover overlap, contradictions, truncation of more
/// than a tenth, constant values, blank texts, cut answers and skipped rows. They also cover labels
/// that never occur, are alike, or look like a header.
std::vector<std::string> task_warnings(const TaskStatistics& report);

/// "37 % of the tokens are unknown to the tokenizer", if they are more than a twentieth; else
/// empty.
std::string describe_unknown(const EncodingCounts& counts);

/// A message about samples that lost tokens, "3 cut to 512 tokens (0.1 %; the first: train.tsv:7)".
/// Empty if none has.
std::string describe_cut(TaskKind kind, const EncodingCounts& counts, std::int64_t sequence_length);

/// Warns of what a model did not read of some examples: what was cut, empty texts, unknown tokens.
void warn_of_losses(TaskKind kind, const EncodingCounts& counts, std::int64_t sequence_length,
                    Log& log);

}  // namespace nystrom
