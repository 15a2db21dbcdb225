// A linear classifier of vectors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace nystrom {

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
