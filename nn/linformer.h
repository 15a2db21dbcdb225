// Linformer (Wang et al., arXiv 2006.04768): keys and values are projected along the sequence to k
// rows. Queries attend to these rows.
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// softmax(Q (E K)ᵀ / √d) F V with trained E and F [k, max_position_embeddings]: one pair a layer,
/// or with per_head one pair a head. A shorter sequence uses the first columns; a longer one is an
/// InputError. Padded keys and values count as 0, so results do not depend on padding on the right
/// or on other samples of the batch. They do depend on the position of a token in its row, because
/// each position has its own weights.
class LinformerAttention : public DenseAttention {
 public:
  LinformerAttention(const Scope& scope, const ModelConfig& config);

 private:
  Var of_tokens(const Var& q, const Var& k, const Var& v,
                const std::vector<std::int64_t>& places) const override;
  /// E x, with the columns of E at `places`: x [b, h, n, d] → [b, h, k, d].
  Var project(const Parameter& projection, const Var& x,
              const std::vector<std::int64_t>& places) const;

  double scale_;
  std::int64_t longest_;
  Parameter keys_, values_;  // [k, longest] or [h, k, longest]
};

}  // namespace nystrom
