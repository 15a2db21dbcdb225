// Attention through features of queries and keys, in O(n): A = φ(Q) φ(K)ᵀ is never formed, for
// (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V).
//
// Features and sums are computed in the accumulate type, and rounded once at the end.
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// softmax(Q over features) · softmax(K over positions)ᵀ · V: each row is a mean of values.
/// "Efficient attention" (Shen et al., arXiv 1812.01243).
class DoubleSoftmaxAttention : public AttentionMethod {
 public:
  Var operator()(const AttentionInputs& inputs) const override;
};

/// φ(x) = elu(x) + 1, normalised by rows (Katharopoulos et al., ICML 2020, arXiv 2006.16236).
class LinearAttention : public AttentionMethod {
 public:
  Var operator()(const AttentionInputs& inputs) const override;
};

/// FAVOR+: φ(x) = exp(w x − |x|²/2) for random orthogonal w estimates the softmax kernel without
/// bias (Choromanski et al., ICLR 2021, arXiv 2009.14794, lemma 1). x are queries and keys over
/// d^¼.
///
/// The features of a layer follow from random_seed and its name, and are never redrawn. Largest
/// scores are taken out of each feature and each query, which cancels in the quotient: nothing
/// overflows, no constant is added to keep it from 0.
class PerformerAttention : public AttentionMethod {
 public:
  PerformerAttention(const Scope& scope, const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;

 private:
  Tensor features_;  // [r, d] f64
};

/// `count` directions in `width` dimensions, [count, width] f64, each N(0, I) by itself: in blocks
/// of `width` they are orthogonal, with lengths drawn independently. Follows from the seed and the
/// name.
Tensor orthogonal_features(std::uint64_t seed, const std::string& name, std::int64_t count,
                           std::int64_t width);

}  // namespace nystrom
