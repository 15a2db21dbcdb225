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
                                const std::vector<std::int64_t>& places) const {
  std::vector<Var> runs;  // of neighbouring columns
  for (std::size_t begin = 0, end = 0; begin < places.size(); begin = end) {
    while (end < places.size() &&
           places[end] - places[begin] == static_cast<std::int64_t>(end - begin))
      ++end;
    runs.push_back(slice(projection.var(), -1, places[begin], places[end - 1] + 1));
  }
  const Var weights = runs.size() == 1 ? runs[0] : concat(runs, -1);
  if (weights.rank() == 3)
    return matmul(reshape(weights, {1, weights.dim(0), weights.dim(1), weights.dim(2)}), x);
  return transpose(linear(transpose(x, -1, -2), weights), -1, -2);
}

Var LinformerAttention::of_tokens(const Var& q, const Var& k, const Var& v,
                                  const std::vector<std::int64_t>& places) const {
  require_input(places.back() < longest_,
                "the sequence has {} positions, but linformer's projections were made for "
                "max_position_embeddings {}; shorten it",
                places.back() + 1, longest_);
  return attention(q, project(keys_, k, places), project(values_, v, places),
                   {.scale = scale_, .out = q.dtype()});
}

}  // namespace nystrom
