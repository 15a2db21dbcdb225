#include <cmath>

#include "core/check.h"
#include "nn/baselines.h"

namespace nystrom {
namespace {

Shape projection_shape(const ModelConfig& config) {
  const std::int64_t k = config.attention.projected_length, n = config.max_position_embeddings;
  return config.attention.projection_sharing == ProjectionSharing::per_head
             ? Shape{config.num_attention_heads, k, n}
             : Shape{k, n};
}

/// E x, with the columns of E at `places`: x [b, h, n, d] → [b, h, k, d].
Var project(const Parameter& projection, const Var& x, const std::vector<std::int64_t>& places) {
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

}  // namespace

TokenAttention linformer_attention(const Scope& scope, const ModelConfig& config) {
  const double scale = 1 / std::sqrt(static_cast<double>(config.head_dim()));
  const std::int64_t longest = config.max_position_embeddings;
  // [k, longest] or [h, k, longest]
  const Parameter keys = (scope / "key_projection").parameter("weight", projection_shape(config));
  const Parameter values =
      (scope / "value_projection").parameter("weight", projection_shape(config));
  return [=](const Var& q, const Var& k, const Var& v, const std::vector<std::int64_t>& places) {
    require_input(places.back() < longest,
                  "the sequence has {} positions, but linformer's projections were made for "
                  "max_position_embeddings {}; shorten it",
                  places.back() + 1, longest);
    return attention(q, project(keys, k, places), project(values, v, places),
                     {.scale = scale, .out = q.dtype()});
  };
}

}  // namespace nystrom
