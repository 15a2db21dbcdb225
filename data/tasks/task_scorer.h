// From a model's outputs for a whole data set to the metrics of its task.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "data/tasks/answers.h"
#include "data/tasks/entities.h"
#include "data/tasks/task_loader.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {

/// Metrics by name, in the order to print them: shares and correlations. A correlation with a
/// constant is NaN.
struct TaskScores {
  std::vector<std::pair<std::string, double>> values;
  std::string metric;   ///< the name of the one that decides: task.metric
  double decisive = 0;  ///< its value; NaN counts as the worst
};

/// Names and order of the values by target: classes: accuracy, f1 (two labels only), f1_macro,
/// matthews; value: pearson, spearman, mse; word_classes: f1, precision, recall, accuracy; span:
/// f1, exact_match; choice: accuracy.
class TaskScorer {
 public:
  /// The data set must be labelled, and keep examples when it has questions. InputError when
  /// task.metric does not fit.
  explicit TaskScorer(std::shared_ptr<const TaskDataset> dataset);
  ~TaskScorer();

  /// The outputs for a batch of its TaskEvaluationLoader, on the CPU in a floating type. classes:
  /// [b, labels]; value: [b, 1] or [b]; word_classes: [b, n, labels]; choice: [b, c]; span: [b, n]
  /// each.
  void add(const Batch& batch, const Tensor& logits);
  void add(const Batch& batch, const Tensor& start_logits, const Tensor& end_logits);

  /// Error unless every sample was added once.
  TaskScores scores() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The metrics that can decide for this data: f1 of classes needs two labels; features have classes
/// or numbers. The usual one first.
std::vector<TaskMetric> fitting_metrics(const TaskDataset& dataset);

/// The metric that decides: task.metric, or the usual one. InputError when it does not fit.
TaskMetric deciding_metric(const TaskDataset& dataset);

/// Whether `a` is better than `b`: all decisive metrics are better when larger; NaN is worst.
bool better(double a, double b);

}  // namespace nystrom
