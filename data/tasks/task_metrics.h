// Probabilities from the scores of a model, and published metrics of predictions, computed as by
// their reference implementations. All are shares or correlations, not per cent. Those of answers
// are in answers.h, those of entities in entities.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace nystrom {

// ---- Classes, as scikit-learn computes them -----------------------------------------------------

/// Precision, recall and F1 of one class (precision_recall_fscore_support with zero_division = 0).
struct PrecisionRecall {
  double precision = 0, recall = 0, f1 = 0;
};
/// Right and wrong decisions about one class or label.
struct ClassCounts {
  std::int64_t truth = 0, predicted = 0, correct = 0;
  PrecisionRecall score() const;
};

struct ClassMetrics {
  std::map<std::int64_t, ClassCounts> classes;  ///< those in truth or predictions
  double accuracy = 0;  ///< the share of equal entries (accuracy_score); 0 for none
  double f1_macro = 0;  ///< the mean F1 of the classes (f1_score(average="macro"))
  /// Matthews' correlation for any number of classes (Gorodkin 2004; matthews_corrcoef). It is 0 if
  /// truth or predictions have only one class.
  double matthews = 0;
  double balanced_accuracy = 0;  ///< the mean recall of the classes in truth; 0 for no entries
  /// Cohen's kappa (cohen_kappa_score): agreement beyond chance. NaN if truth and predictions are
  /// of the same single class.
  double kappa = 0;
};
ClassMetrics class_metrics(std::span<const std::int64_t> truth,
                           std::span<const std::int64_t> predicted);

/// The area under the ROC curve (roc_auc_score): the probability that a positive entry has the
/// higher score than a negative one, where ties count half. NaN without both kinds, or for a score
/// that is NaN.
double roc_auc(const std::vector<bool>& positive, std::span<const double> scores);

/// The counts of one class against all others.
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

// ---- Numbers ------------------------------------------------------------------------------------

/// Ranks of finite numbers from 1, where ties have their mean rank.
std::vector<double> mean_ranks(std::span<const double> values);
/// Pearson's r (scipy.stats.pearsonr). NaN for fewer than 2 entries, and if either side is
/// constant.
double pearson_correlation(std::span<const double> a, std::span<const double> b);
/// Spearman's correlation: Pearson's r of ranks, where ties have their mean rank
/// (scipy.stats.spearmanr).
double spearman_correlation(std::span<const double> a, std::span<const double> b);

// ---- Any number of labels an example, as scikit-learn computes them -----------------------------

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

/// A metric for people: "0.9142", or "undefined" for NaN.
std::string metric_text(double value);

/// Throws an InputError if a score of a model is NaN or infinite: what follows from it would be an
/// answer all the same.
void require_finite(std::span<const double> scores);

/// The softmax of scores, which require_finite.
std::vector<double> softmax_of(std::span<const double> scores);

/// The indices 0 … count − 1 in the order of their keys, equal ones in their own.
template <class Key, class Less = std::less<>>
std::vector<std::size_t> indices_by(std::size_t count, const Key& key, Less less = {}) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, less, key);
  return order;
}

/// The indices of the `count` largest numbers, or of all if there are fewer, largest first. Equal
/// ones are in the order of their indices.
std::vector<std::size_t> largest(std::span<const double> numbers, std::int64_t count);

}  // namespace nystrom
