// Nyström attention (Xiong et al., AAAI 2021, arXiv 2102.03902): an approximation of softmax
// attention through m landmarks, in O(n).
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// nystrom_attention() for the sequences of more than m tokens, and exact attention for the others.
/// Segments cover the tokens of a sequence, and the first iterate is scaled by matrix: a sequence's
/// result does not depend on padding, or on the others of its batch. With rotary positions
/// landmarks are means that are rotated at the middle of their segments: the mean of rotated rows
/// would lose what turns fast within a segment.
class NystromAttention : public AttentionMethod {
 public:
  explicit NystromAttention(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  Var with_convolution(const AttentionInputs& inputs, const Parameter& taps) const override;
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

/// Nyström attention as Hugging Face's Nyströmformer computes it (semantics transformers): segments
/// cover the padded row, and the first iterate is scaled by the whole batch. A query whose keys are
/// all padding gets the mean of all values. All sequences have the length segment_means_seq_len;
/// others are InputErrors.
class TransformersNystrom : public NystromAttention {
 public:
  explicit TransformersNystrom(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  Var with_convolution(const AttentionInputs& inputs, const Parameter& taps) const override;
  bool is_exact(std::int64_t) const override { return false; }

 private:
  /// All sequences of the batch, which have that length.
  const SequenceSpans& padded(const Ragged& batch) const;

  std::int64_t length_;
};

/// The Nyström attention of `config`; null where transformers' semantics make it exact.
std::unique_ptr<NystromAttention> make_nystrom(const ModelConfig& config);
/// What exact attention gives to queries without keys.
EmptyRows empty_rows_of(const ModelConfig& config);
/// `padding`, unless the semantics keep padding as rows, or distances matter in attention.
Padding padding_of(const ModelConfig& config, Padding padding);

}  // namespace nystrom
