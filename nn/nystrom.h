// Nyström attention (Xiong et al., AAAI 2021, arXiv 2102.03902): softmax attention approximated
// through m landmarks, in O(n).
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// With landmarks Qs, Ks and A = softmax(s Qs Ksᵀ), out = softmax(s Q Ksᵀ) · A⁺ · (softmax(s Qs Kᵀ)
/// V): two ordinary attentions and an inverse, evaluated from the right, so that nothing of size n
/// × n or n × m is kept.
///
/// Landmarks are the query and key projections applied to segment means of the layer's input, in
/// the accumulate type: the same as means of queries and keys, without a second pass over these.
/// Under bf16 and f16 they are rounded to that type once, and these values enter all three
/// softmaxes; A, its inverse and everything of m rows stays f32.
///
/// semantics nystrom: segments over the valid tokens, first iterate scaled by matrix, and exact
/// attention for every sequence of at most m tokens. semantics transformers: segments over the
/// padded row, first iterate scaled by the whole batch, exact attention if and only if
/// segment_means_seq_len == num_landmarks; other lengths than segment_means_seq_len are refused.
class NystromAttention : public AttentionMethod {
 public:
  explicit NystromAttention(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  /// A = softmax(s Qs Ksᵀ) [b, h, m, m], the matrix that is inverted, in the accumulate type.
  Var landmark_matrix(const AttentionInputs& inputs) const;
  /// What the gradient `dy` [b, h, n, d] of the output says of that matrix, through the inverse:
  /// [b, h, m, m]. For samples that are not exact.
  Tensor landmark_matrix_gradient(const AttentionInputs& inputs, const Tensor& dy) const;
  /// Whether a sequence of so many tokens gets exact attention.
  bool is_exact(std::int64_t tokens) const;

 private:
  struct Landmarks {
    Var queries, keys;  // [b, h, m, d]
  };
  Var landmark_matrix(const Landmarks& landmarks) const;
  Var approximate(const AttentionInputs& inputs) const;
  /// softmax(s Qs Kᵀ) V: [b, h, m, d] in the accumulate type.
  Var read_values(const Landmarks& landmarks, const AttentionInputs& inputs) const;
  /// softmax(s Q Ksᵀ) y.
  Var read_landmarks(const Landmarks& landmarks, const AttentionInputs& inputs, const Var& y) const;
  Landmarks landmarks(const AttentionInputs& inputs) const;
  /// A⁺ x, with the inverse that the configuration names.
  Var apply_inverse(const Var& a, const Var& x) const;

  AttentionConfig config_;
  std::int64_t segment_means_seq_len_;
  std::int64_t heads_;
  double scale_;
  SoftmaxAttention exact_;
};

}  // namespace nystrom
