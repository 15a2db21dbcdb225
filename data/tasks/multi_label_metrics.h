// Metrics of examples that have any number of labels, as scikit-learn computes them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tasks/task_metrics.h"

namespace nystrom {

/// The probability of a label that is judged by itself: 1 / (1 + exp(−logit)).
double sigmoid(double logit);

/// Right labels and predictions of some examples. Every vector is [examples, labels], row by row.
struct LabelSets {
  std::int64_t labels = 0;
  std::vector<std::uint8_t> truth{}, predicted{};  ///< 1: the example has the label
  std::vector<double> scores{};                    ///< larger: more probable

  std::int64_t examples() const { return labels > 0 ? std::ssize(truth) / labels : 0; }
};

/// The counts of each label.
std::vector<ClassCounts> label_counts(const LabelSets& sets);

/// The F1 of all decisions together (f1_score(average="micro", zero_division=0)).
double micro_f1(const LabelSets& sets);
/// The mean F1 of all labels (f1_score(average="macro", zero_division=0)).
double macro_f1(const LabelSets& sets);
/// The mean over the labels of Σ (R_n − R_{n−1}) P_n, with precision P and recall R at each score
/// (average_precision_score). A label that no example has counts as 0.
double mean_average_precision(const LabelSets& sets);
/// The share of examples whose labels are all right (accuracy_score).
double subset_accuracy(const LabelSets& sets);

/// Sets predictions that ignore the input: for every example the most frequent labels, as many as
/// give the largest micro F1. All scores are equal.
void predict_frequent_labels(LabelSets& sets);

}  // namespace nystrom
