// Figures of every layer's attention during one training step, measured on one sequence of the
// batch.
#pragma once

#include <map>

#include "nn/nystrom.h"

namespace nystrom {

/// The figures of one layer, over all heads. Errors and entropies are sampled at up to 64 evenly
/// spaced tokens. The cost thus grows linearly with the length, not quadratically.
struct AttentionFigures {
  /// |out − exact| / |exact| (Frobenius), where exact is softmax attention of the same queries,
  /// keys and values.
  double error = 0;
  /// Mean entropy of the exact attention's rows, in nats: 0 for attention to one token, log n for
  /// uniform attention.
  double entropy = 0;
  /// |AZA − A| / |A| for the landmark matrix A and its iterative inverse Z, mean over heads; 0 for
  /// other inverses. With semantics transformers, Z is scaled by this sequence only, not by its
  /// batch.
  double residual = 0;
  /// |∂ loss / ∂A| (Frobenius) through the inverse, for that sequence's part of the loss.
  double inverse_gradient = 0;
};

/// Measures the layers whose attention kind is nystrom. It does not change a bit of the layers'
/// results.
class AttentionWatch {
 public:
  /// `config` is the configuration of the watched model.
  explicit AttentionWatch(const ModelConfig& config);
  // Not copyable: hooks that observe() puts on the tape point to this object.
  AttentionWatch(const AttentionWatch&) = delete;
  AttentionWatch& operator=(const AttentionWatch&) = delete;

  /// A RunContext::observe_attention, which measures the batch's sequence with the most tokens.
  /// Does nothing unless a tape records a backward pass. The watch must outlive that pass, which
  /// completes the figures.
  void observe(const AttentionInputs& inputs, Var& output);

  /// The figures by layer, from 0.
  const std::map<std::int64_t, AttentionFigures>& layers() const { return layers_; }

 private:
  ModelConfig config_;
  std::unique_ptr<NystromAttention> approximation_;  // null: exact
  SoftmaxAttention exact_;
  std::map<std::int64_t, AttentionFigures> layers_;
};

}  // namespace nystrom
