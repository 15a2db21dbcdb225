// Nyström attention as Hugging Face's Nyströmformer computes it (semantics transformers).
#pragma once

#include "nn/nystrom.h"

namespace nystrom {

/// Segments cover the padded row, and the first iterate is scaled by the whole batch. A query whose
/// keys are all padding gets the mean of all values. All sequences have segment_means_seq_len
/// positions; other lengths are InputErrors.
class TransformersNystrom : public NystromAttention {
 public:
  explicit TransformersNystrom(const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;
  Var with_convolution(const AttentionInputs& inputs,
                       const Convolution& convolution) const override;
  bool is_exact(std::int64_t) const override { return false; }

 private:
  /// All sequences of the batch, which have the right length.
  const SequenceSpans& sequences(const AttentionInputs& inputs) const;

  std::int64_t length_;
};

/// The Nyström attention of `config`; null where transformers' semantics make it exact.
std::unique_ptr<NystromAttention> make_nystrom(const ModelConfig& config);
/// What exact attention gives to queries without keys.
EmptyRows empty_rows_of(const ModelConfig& config);
/// `padding`, unless the semantics keep padding as rows, or distances matter in attention.
Padding padding_of(const ModelConfig& config, Padding padding);

}  // namespace nystrom
