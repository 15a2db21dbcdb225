// Attention through features φ of queries and keys, in O(n). Since (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V),
// the matrix φ(Q) φ(K)ᵀ is never formed.
//
// Features and sums are computed in the accumulate type, and rounded once at the end.
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// softmax(Q over features) · softmax(K over positions)ᵀ · V: "efficient attention" (Shen et al.,
/// arXiv 1812.01243). Each row is a mean of values.
class DoubleSoftmaxAttention : public DenseAttention {
  Var of_tokens(const Var& q, const Var& k, const Var& v,
                const std::vector<std::int64_t>& places) const override;
};

/// Linear attention with φ(x) = elu(x) + 1, normalised by rows (Katharopoulos et al., ICML 2020,
/// arXiv 2006.16236).
class LinearAttention : public DenseAttention {
  Var of_tokens(const Var& q, const Var& k, const Var& v,
                const std::vector<std::int64_t>& places) const override;
};

/// FAVOR+ (Choromanski et al., ICLR 2021, arXiv 2009.14794, lemma 1). φ(x) = exp(w x − |x|²/2) with
/// random orthogonal w is an unbiased estimate of the softmax kernel. x are queries and keys
/// divided by d^¼.
///
/// The features of a layer follow from random_seed and its name, and are never redrawn. The largest
/// score of each feature and of each query is subtracted, which cancels in the quotient. Nothing
/// overflows, and no constant is needed to avoid a division by 0.
class PerformerAttention : public DenseAttention {
 public:
  PerformerAttention(const Scope& scope, const ModelConfig& config);

 private:
  Var of_tokens(const Var& q, const Var& k, const Var& v,
                const std::vector<std::int64_t>& places) const override;

  Tensor features_;  // [r, d] f64
};

/// `count` random directions in `width` dimensions, [count, width] f64, each distributed as N(0,
/// I). Directions are orthogonal within blocks of `width`, and their lengths are independent. They
/// follow from the seed and the name.
Tensor orthogonal_features(std::uint64_t seed, const std::string& name, std::int64_t count,
                           std::int64_t width);

}  // namespace nystrom
