// What the attention of every layer does during one training step, seen on one sequence of it: the
// figures a run records of its approximation.
#pragma once

#include <map>

#include "nn/nystrom.h"

namespace nystrom {

/// Of one layer, all heads together. Errors and entropies are taken at up to 64 of the sequence's
/// tokens, evenly spaced, so that the cost grows with the length and not with its square.
struct AttentionFigures {
  double error = 0;  ///< |out − exact| / |exact| (Frobenius), exact softmax attention of the same
                     ///< queries, keys and values
  double entropy =
      0;  ///< of the exact attention's rows, in nats: 0 looks at one token, log n at all alike
  double residual = 0;  ///< |AZA − A| / |A|, mean over heads, of the landmark matrix A and its
                        ///< iterative inverse Z; 0 for others. With semantics transformers, Z is
                        ///< scaled by this sequence alone, not by its batch
  double inverse_gradient =
      0;  ///< |∂ loss / ∂A| (Frobenius) through the inverse, for that sequence's part of the loss
};

/// Watches the layers of a model whose attention.kind is nystrom. It changes no bit of what they
/// compute.
class AttentionWatch {
 public:
  explicit AttentionWatch(const ModelConfig& config);
  AttentionWatch(const AttentionWatch&) = delete;  // what observe() put on the tape points here
  AttentionWatch& operator=(const AttentionWatch&) = delete;

  /// For RunContext::observe_attention: looks at the batch's sequence of the most tokens. Nothing
  /// where nothing is recorded for a backward pass. The watch outlives that pass, which completes
  /// the figures.
  void observe(const AttentionInputs& inputs, Var& output);

  /// By layer, the first one first.
  const std::map<std::int64_t, AttentionFigures>& layers() const { return layers_; }

 private:
  ModelConfig config_;
  NystromAttention approximation_;
  SoftmaxAttention exact_;
  std::map<std::int64_t, AttentionFigures> layers_;
};

}  // namespace nystrom
