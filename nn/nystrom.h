// Nyström attention (Xiong et al., AAAI 2021, arXiv 2102.03902): an approximation of softmax
// attention through m landmarks, in O(n).
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// nystrom_attention() for the sequences of more than m tokens, and exact attention for the others.
/// Segments cover the tokens of a sequence, and the first iterate is scaled by matrix: a sequence's
/// result does not depend on padding, or on the others of its batch. With rotary positions
/// landmarks are means that are rotated at the middle of their segments: the mean of rotated rows
/// would cancel in long segments.
class NystromAttention : public AttentionMethod {
 public:
  explicit NystromAttention(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  Var with_convolution(const AttentionInputs& inputs,
                       const Convolution& convolution) const override;
  /// Whether a sequence of `tokens` tokens gets exact attention.
  virtual bool is_exact(std::int64_t tokens) const { return tokens <= options_.landmarks; }
  /// The matrix A = softmax(s Qs Ksᵀ) [b, h, m, m] that is inverted, in the accumulate type.
  Tensor landmark_matrix(const AttentionInputs& inputs) const;
  /// The gradient of that matrix through the inverse, [b, h, m, m], for the output's gradient `dy`.
  /// Only for sequences without exact attention.
  Tensor landmark_matrix_gradient(const AttentionInputs& inputs, const Tensor& dy) const;

 protected:
  /// The attention of some sequences, with a convolution if there are taps: rows [r, h · d] or [b,
  /// n, h · d], 0 at other rows.
  Var approximate(const SequenceSpans& sequences, const AttentionInputs& inputs,
                  const Var& taps = {}) const;

  NystromOptions options_;

 private:
  NystromInputs inputs_of(const AttentionInputs& inputs, const Var& taps) const;
  NystromOptions options_of(const SequenceSpans& sequences, const AttentionInputs& inputs) const;

  bool shared_landmarks_;
  SoftmaxAttention exact_;
};

}  // namespace nystrom
