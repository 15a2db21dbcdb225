// What a task's data is like: for `check --data`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/tasks/task_dataset.h"

namespace nystrom {

struct TaskSetReport {
  EncodingCounts encoding;
  SkippedRows skipped;
  std::vector<std::pair<std::string, std::int64_t>>
      labels;  ///< how often each occurs (of words for tokens; right places for choices)
  std::string lone_first_label;   ///< of the first row without a header, where no other row has it;
                                  ///< else empty
  std::int64_t unanswerable = 0;  ///< questions without an answer
  std::int64_t values = 0;        ///< numbers of regression
  double smallest = 0, mean = 0, largest = 0;  ///< … of these
  std::int64_t median_length =
      0;  ///< tokens of a sample, or steps, as it would be if nothing had been cut
  std::int64_t duplicates = 0;      ///< examples whose inputs an earlier one has too
  std::int64_t contradictions = 0;  ///< … with another label
};

struct TaskReport {
  TaskSetReport train, validation;
  std::int64_t overlap = 0;  ///< validation examples whose inputs a training example has too
  double majority = 0;       ///< accuracy on validation of always saying the most frequent training
                             ///< label; 0 where there are none
};

TaskReport report_task(const TaskDataset& train, const TaskDataset& validation);

/// What is suspicious, a line each: overlap, contradictions, truncation of more than a tenth,
/// labels that never occur, are alike or look like a header, values that are all the same, blank
/// texts, cut answers, skipped rows.
std::vector<std::string> task_warnings(const TaskReport& report);

/// "3 cut to 512 tokens (0.1 %; the first: train.tsv:7)", of what has lost tokens; empty when
/// nothing has.
std::string describe_cut(TaskKind kind, const EncodingCounts& counts, std::int64_t sequence_length);

}  // namespace nystrom
