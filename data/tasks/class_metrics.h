// Metrics of classes that treat rare ones like frequent ones, and figures of each class. All equal
// scikit-learn's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tasks/task_metrics.h"

namespace nystrom {

/// The mean recall of the classes in truth (balanced_accuracy_score); 0 for no entries.
double balanced_accuracy(std::span<const std::int64_t> truth,
                         std::span<const std::int64_t> predicted);

/// Cohen's kappa (cohen_kappa_score): agreement beyond chance. NaN if truth and predictions are of
/// the same single class.
double cohen_kappa(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted);

/// The area under the ROC curve (roc_auc_score): the probability that a positive entry has the
/// higher score than a negative one, where ties count half. NaN without both kinds, or for a score
/// that is NaN.
double roc_auc(const std::vector<bool>& positive, std::span<const double> scores);

/// What a model makes of one class against all others.
struct ClassFigures {
  PrecisionRecall score;
  std::int64_t support = 0;  ///< entries of the class
  double auc = 0;            ///< by its probability; of two classes both have the same
};

/// The figures of classes 0 … count − 1. `logits` has a row of `count` numbers for each entry;
/// empty: all entries have the same, and each area is ½.
std::vector<ClassFigures> class_figures(std::span<const std::int64_t> truth,
                                        std::span<const std::int64_t> predicted,
                                        std::span<const std::vector<double>> logits,
                                        std::int64_t count);

/// The mean area of the classes (roc_auc_score, for more than two with multi_class="ovr"). NaN if
/// one is.
double mean_auc(std::span<const ClassFigures> classes);

}  // namespace nystrom
