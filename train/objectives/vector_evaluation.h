// Evaluation of vectors on texts with known answers. That of retrieval is in
// train/objectives/retrieval.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "data/tasks/examples.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// The scores of vectors, by name, and on what: {"pairs", 120}.
struct VectorScores {
  std::vector<std::pair<const char*, std::int64_t>> counts;
  std::vector<std::pair<const char*, double>> scores;
  std::vector<std::string> warnings = {};  ///< what a user should know of the data
};

/// How alike row i of a and row j of b are, both [rows, d] f32: for dot their inner product, else
/// their cosine. That with a row of zeros is 0.
double similarity(Similarity by, const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j);
/// Their inner product, the same to the bit for equal rows in any place.
double inner_product(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j);

/// Do similar texts have similar vectors? Reads pairs with scores from the files that `patterns`
/// match, as `task` says (kind regression, resolved, with task.columns.pair), and correlates their
/// vectors' similarities with the scores: spearman, pearson. `first` embeds task.columns.text, and
/// `second` task.columns.pair. Throws an InputError "file:line: …".
VectorScores evaluate_pairs(TextEmbedder& first, TextEmbedder& second, const TaskConfig& task,
                            const std::vector<std::string>& patterns);

/// Do texts of one label lie together? Fits a logistic regression to the vectors of task.train, and
/// scores it on those of task.validation: accuracy, f1_macro. `task` is resolved and of kind
/// classification. The vectors of one of the two are in memory at a time. Throws an InputError
/// "file:line: …", also for a label that task.train does not have.
VectorScores evaluate_classes(TextEmbedder& embedder, const TaskConfig& task);

/// Multinomial logistic regression: the minimum of ½ ‖W‖² + Σ −log softmax(W x + b)[label], as in
/// scikit-learn's LogisticRegression with C = 1. Of two classes that has one weight vector w and
/// the penalty ½ ‖w‖², which is ‖W‖². Computed in f64 by L-BFGS (Liu & Nocedal,
/// Mathematical Programming 45, 1989) until no entry of the gradient exceeds 1e-6 of the number of
/// rows, in at most 1,000 iterations. The same vectors give the same bits.
class LogisticRegression {
 public:
  /// Fits `vectors`, [rows, d] f32 or f64 on the CPU, to their labels: 0 ≤ label < classes.
  LogisticRegression(const Tensor& vectors, std::span<const std::int64_t> labels,
                     std::int64_t classes);

  /// The most probable label of each row.
  std::vector<std::int64_t> predict(const Tensor& vectors) const;

  /// W, [classes, d], and b, [classes]: f64.
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  Tensor weight_, bias_;
};

}  // namespace nystrom
