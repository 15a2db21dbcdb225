// Linformer (Wang et al., arXiv 2006.04768): keys and values are projected along the sequence to k
// rows, which the queries attend to.
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// softmax(Q (E K)ᵀ / √d) F V with trained E and F [k, max_position_embeddings]: one pair a layer,
/// or (per_head) a pair a head. A shorter sequence uses the first columns, a longer one is refused.
/// Padded keys and values count as 0, so padding on the right and company change nothing; but each
/// position has weights of its own, so it matters where in its row a token stands.
class LinformerAttention : public AttentionMethod {
 public:
  LinformerAttention(const Scope& scope, const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;

 private:
  /// E x of the valid tokens: x [b, h, n, d] → [b, h, k, d].
  Var project(const Parameter& projection, const Var& x, const SequenceMask& mask) const;

  double scale_;
  std::int64_t longest_;
  Parameter keys_, values_;  // [k, longest] or [h, k, longest]
};

}  // namespace nystrom
