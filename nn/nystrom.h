// Nyström attention (Xiong et al., AAAI 2021, arXiv 2102.03902): an approximation of softmax
// attention through m landmarks, in O(n).
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// Landmarks Qs and Ks give A = softmax(s Qs Ksᵀ), and out = softmax(s Q Ksᵀ) · A⁺ · (softmax(s Qs
/// Kᵀ) V). These are two ordinary attentions and an inverse, evaluated from the right. No matrix of
/// size n × n or n × m is kept.
///
/// Landmarks are the query and key projections of segment means of the layer's input, in the
/// accumulate type. They equal the means of queries and keys, without a second pass over these.
/// Under bf16 and f16 they are rounded to that type once, and all three softmaxes use the rounded
/// values. A, its inverse and all tensors of m rows stay f32.
///
/// semantics nystrom: segments cover the valid tokens, and the first iterate is scaled by matrix.
/// Sequences of at most m tokens get exact attention.
///
/// semantics transformers: segments cover the padded row, and the first iterate is scaled by the
/// whole batch. Attention is exact if and only if segment_means_seq_len == num_landmarks. Other
/// lengths than segment_means_seq_len are InputErrors.
class NystromAttention : public AttentionMethod {
 public:
  explicit NystromAttention(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  /// For the iterative inverse, if no sequence gets exact attention.
  bool fuses(const Ragged& batch) const override;
  Var fused(const FusedInputs& inputs) const override;
  /// The matrix A = softmax(s Qs Ksᵀ) [b, h, m, m] that is inverted, in the accumulate type.
  Var landmark_matrix(const AttentionInputs& inputs) const;
  /// The gradient of that matrix through the inverse, [b, h, m, m], for the output's gradient `dy`.
  /// Only for sequences without exact attention.
  Tensor landmark_matrix_gradient(const AttentionInputs& inputs, const Tensor& dy) const;
  /// Whether a sequence of `tokens` tokens gets exact attention.
  bool is_exact(std::int64_t tokens) const;

 private:
  struct Landmarks {
    Var queries, keys;  // [b, h, m, d]
  };
  Var landmark_matrix(const Landmarks& landmarks) const;
  /// The attention of some sequences; other rows are 0.
  Var approximate(const SequenceSpans& sequences, const AttentionInputs& inputs) const;
  /// softmax(s Qs Kᵀ) V: [b, h, m, d] in the accumulate type.
  Var read_values(const Landmarks& landmarks, const SequenceSpans& sequences,
                  const AttentionInputs& inputs) const;
  /// softmax(s Q Ksᵀ) y: [b, h, m, d] → the queries' shape.
  Var read_landmarks(const Landmarks& landmarks, const SequenceSpans& sequences,
                     const AttentionInputs& inputs, const Var& y) const;
  Landmarks landmarks(const SequenceSpans& sequences, const AttentionInputs& inputs) const;
  /// A⁺ x, with the inverse that the configuration selects.
  Var apply_inverse(const Var& a, const Var& x) const;

  AttentionConfig config_;
  std::int64_t segment_means_seq_len_;
  std::int64_t heads_;
  double scale_;
  SoftmaxAttention exact_;
};

}  // namespace nystrom
