#include "nn/linformer.h"

#include <cmath>

#include "core/check.h"

namespace nystrom {
namespace {

Shape projection_shape(const ModelConfig& config) {
  const std::int64_t k = config.attention.projected_length, n = config.max_position_embeddings;
  return config.attention.projection_sharing == ProjectionSharing::per_head
             ? Shape{config.num_attention_heads, k, n}
             : Shape{k, n};
}

}  // namespace

LinformerAttention::LinformerAttention(const Scope& scope, const ModelConfig& config)
    : scale_(1 / std::sqrt(static_cast<double>(config.head_dim()))),
      longest_(config.max_position_embeddings),
      keys_((scope / "key_projection").parameter("weight", projection_shape(config))),
      values_((scope / "value_projection").parameter("weight", projection_shape(config))) {}

Var LinformerAttention::project(const Parameter& projection, const Var& x,
                                const SequenceMask& mask) const {
  const std::int64_t length = mask.length();
  const Var tokens =
      mask.valid().defined() ? split_heads(mask_rows(merge_heads(x), mask.valid()), x.dim(1)) : x;
  const Var weights = slice(projection.var(), -1, 0, length);
  if (weights.rank() == 3)
    return matmul(reshape(weights, {1, weights.dim(0), weights.dim(1), length}), tokens);
  return transpose(linear(transpose(tokens, -1, -2), weights), -1, -2);
}

Var LinformerAttention::operator()(const AttentionInputs& in) const {
  require_input(in.mask.length() <= longest_,
                "the sequence has {} positions, but linformer's projections were made for "
                "max_position_embeddings {}; shorten it",
                in.mask.length(), longest_);
  return attention(in.queries, project(keys_, in.keys, in.mask),
                   project(values_, in.values, in.mask),
                   {scale_, {}, EmptyRows::zero, in.queries.dtype()});
}

}  // namespace nystrom
