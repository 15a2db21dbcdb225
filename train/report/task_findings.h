// The errors of a fine-tuned model on its validation data, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/device.h"
#include "data/tasks/task_metrics.h"
#include "train/report/run_history.h"

namespace nystrom {

/// A prediction beside the truth.
struct JudgedExample {
  std::string text;  ///< the input
  std::string truth, predicted;
  bool correct = false;
  double confidence = 0;  ///< the probability of the prediction, from 0 to 1
  /// For regression.
  double value = 0, predicted_value = 0;
};

/// The predictions with similar confidence.
struct CalibrationBin {
  std::int64_t count = 0;
  double confidence = 0, accuracy = 0;  ///< means; 0 without predictions
};

/// How the predictions for validation data differ from the truth.
struct TaskFindings {
  std::vector<std::string> notes;   ///< why there are none, or which are left out
  std::string unit = "examples";    ///< the judged things: "examples", or "words" for tokens
  std::int64_t judged = 0;          ///< their number
  std::vector<std::string> labels;  ///< empty for tasks without labels
  std::vector<std::vector<std::int64_t>> confusions;  ///< counts by [truth][prediction]
  /// In the place of confusions, the counts of each label, where a text has any number of them.
  std::vector<ClassCounts> label_counts;
  std::vector<CalibrationBin> bins;  ///< 10, of equal width; none for regression
  /// The mean difference of confidence and accuracy over the bins, weighted by their counts.
  double calibration_error = 0;
  std::vector<JudgedExample> wrong;  ///< the most wrong, the worst first
  /// Regression: all values.
  std::vector<double> values, predicted_values;
};

/// The statistics of predicted labels, answers or choices. `labels` is empty without a label set.
/// The most confident wrong ones are the worst.
TaskFindings judge_labels(const std::vector<JudgedExample>& examples,
                          const std::vector<std::string>& labels);
/// The statistics of predicted values. Those with the largest errors are the worst.
TaskFindings judge_values(const std::vector<JudgedExample>& examples);

/// Predicts the first `max_examples` of the validation files (task.validation) with the best
/// checkpoint of a run. Without the files or a usable checkpoint the result is a note.
TaskFindings find_task_errors(const RunHistory& run, std::int64_t max_examples, Device device,
                              Log& log);

}  // namespace nystrom
