// Metrics of a task, from a model's outputs for a whole data set: those that training, evaluate and
// exports show. metrics_of (data/tasks/task_config.h) lists those that may decide.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "data/tasks/answers.h"
#include "data/tasks/entities.h"
#include "data/tasks/task_loader.h"
#include "data/tasks/task_metrics.h"

namespace nystrom {

/// Metrics by name, in the order of display. They are shares and correlations; a correlation with a
/// constant is NaN.
struct TaskScores {
  std::vector<std::pair<std::string, double>> values;
  std::string metric{};  ///< name of the decisive metric: task.metric
  double decisive = 0;   ///< its value; NaN counts as the worst
  /// Classes, up to max_confusion of them: how many examples of each (a row) got each (a column).
  std::vector<std::vector<std::int64_t>> confusion{};
  std::vector<ClassFigures> classes{};  ///< classes, up to max_confusion of them

  /// A metric by its name; nothing if it is not among them.
  std::optional<double> value(std::string_view name) const;
};
inline constexpr std::int64_t max_confusion = 200;

/// A model's outputs for one sample: its logits, for word_classes those of each token; for a span
/// the scores of each token as the first and as the last one of the answer.
struct SampleOutputs {
  std::int64_t sample = 0;
  std::vector<double> first, last = {};
};

/// A model's outputs for a batch, sample by sample. classes, label_set: [b, labels]; value: [b, 1]
/// or [b]; word_classes: [r, labels]; choice: [b, c]; span: those of first and last tokens, [b, n]
/// each.
std::vector<SampleOutputs> outputs_by_sample(const TaskDataset& data,
                                             std::span<const std::int64_t> samples,
                                             const Tensor& first, const Tensor& last = {});

/// Computes the metrics of a data set. Names and order depend on the target:
/// - classes: accuracy, f1 (two labels only), f1_macro, matthews, balanced_accuracy, kappa, auc
/// - label_set: f1_micro, f1_macro, mean_average_precision, exact_match
/// - value: pearson, spearman, mse
/// - word_classes: f1, precision, recall, accuracy
/// - span: f1, exact_match
/// - choice: accuracy
class TaskScorer {
 public:
  /// The data set must be labelled, and keep examples if it has questions. Throws an InputError
  /// when task.metric does not fit, and that of require_targets.
  explicit TaskScorer(std::shared_ptr<const TaskDataset> dataset);

  /// Adds the outputs for a sample.
  void add(SampleOutputs outputs);

  /// The metrics. `loss`: the mean over all targets, for task.metric loss. Throws an Error unless
  /// every sample was added once.
  TaskScores scores(double loss) const;

 private:
  TaskScores undecided() const;

  std::shared_ptr<const TaskDataset> data_;
  std::vector<std::uint8_t> seen_;              // whether each sample was added
  std::vector<SampleOutputs> outputs_;          // but for word_classes
  std::vector<std::vector<std::string>> tags_;  // for word_classes
};

/// The metrics of the best prediction that ignores the input: the most frequent label of the data
/// (of a word with a token; of a choice), the most frequent labels of a text, the mean of its
/// values, or no answer. Correlations are 0. The data must be labelled, and keep examples if it has
/// questions.
TaskScores constant_scores(const TaskDataset& data);

/// The prediction of constant_scores, for messages: "the most frequent label".
const char* constant_prediction(TaskTarget target);

/// The mean loss of the best outputs that ignore the input, over all windows: the entropy of the
/// labels, with several labels a text its mean over them, or the variance of the values.
double constant_loss(const TaskDataset& data);

/// The decisive metric: task.metric, or the default. Throws an InputError when it does not fit.
TaskMetric deciding_metric(const TaskDataset& dataset);

/// Throws an InputError for words of which none has a token: there is nothing to learn or measure.
/// `name` is that of the data, for the message: "the training data".
void require_targets(const TaskDataset& data, const std::string& name);
/// Throws an InputError when `metric` is undefined or constant on the data, whatever a model
/// predicts: without some label, without an entity, or with equal values. `name` is that of the
/// data, for the message.
void require_decidable(const TaskDataset& data, TaskMetric metric, const std::string& name);
/// Throws an InputError for training data with values of which f32, in which losses are computed,
/// rounds a thousandth of their spread, or `dtype`, in which the model computes, a tenth.
void require_fine_values(const TaskDataset& data, DType dtype);
/// A warning if some columns of the features, as the first to last of a few samples show, vary by
/// less than `dtype`, in which the model computes, rounds them. Else empty.
std::string coarse_columns(const TaskDataset& data, DType dtype);
/// Throws an InputError when all values are equal, so that no correlation with them is defined.
void require_different_values(std::span<const double> values, TaskMetric metric,
                              const std::string& name);

/// Whether `a` is better than `b`. Larger is better for all decisive metrics but the loss; NaN is
/// worst.
bool better(double a, double b, bool higher_is_better = true);

}  // namespace nystrom
