#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/nystrom_fused.h"
#include "autograd/ops/shared.h"
#include "core/int8.h"

namespace nystrom {
namespace {

/// No model has as many; sizes that are products of it stay within 64 bits.
constexpr std::int64_t most_landmarks = 1 << 20;

/// Whether the shape is [heads, k] or [heads, 1, k, 1] with k odd.
bool has_taps(const Shape& shape, std::int64_t heads) {
  const bool file = shape.rank() == 4 && shape[1] == 1 && shape[3] == 1;
  return (file || shape.rank() == 2) && shape[0] == heads && shape.numel() / heads % 2 == 1;
}

void check_rows(const NystromInputs& in, const NystromOptions& options) {
  const bool ragged = options.keys.ragged();
  require(options.heads >= 1 && in.hidden.rank() == (ragged ? 2 : 3) &&
              in.queries.rank() == (options.queries.ragged() ? 3 : 4) &&
              in.queries.dim(1) == options.heads,
          "nystrom_attention: hidden is {} and the queries are {}, expected {} and {} for {} heads",
          in.hidden.shape(), in.queries.shape(), ragged ? "[r, c]" : "[b, n, c]",
          options.queries.ragged() ? "[r, h, d]" : "[b, h, n, d]", options.heads);
  require(!in.qkv.defined() || (in.qkv.shape().without(-1) == in.hidden.shape().without(-1) &&
                                in.qkv.dim(-1) == 3 * options.heads * in.queries.dim(-1)),
          "nystrom_attention: qkv is {}, expected three times {} heads of width {}", in.qkv.shape(),
          options.heads, in.queries.dim(-1));
  require(options.keys.count(in.hidden.dim(0)) == options.queries.count(in.queries.dim(0)),
          "nystrom_attention: queries and keys need the same number of spans");
  require(!ragged || !options.key_mask.defined(),
          "nystrom_attention: a key mask is of dense inputs");
  require(options.queries.ragged() == ragged || !(in.qkv.defined() || in.taps.defined()),
          "nystrom_attention: queries of some rows go with neither qkv nor taps");
  require_spans("nystrom_attention", options.queries, in.queries.dim(0));
  require_spans("nystrom_attention", options.keys, in.hidden.dim(0));
  require(in.hidden.dtype() == in.queries.dtype(),
          "nystrom_attention: hidden is {}, but queries {}", in.hidden.dtype(), in.queries.dtype());
  if (!options.key_mask.defined()) return;
  require(options.key_mask.dtype() == DType::u8 &&
              options.key_mask.shape() == in.hidden.shape().without(-1),
          "nystrom_attention: the key mask is {} {}, expected u8 {}", options.key_mask.dtype(),
          options.key_mask.shape(), in.hidden.shape().without(-1));
}

void check(const NystromInputs& in, const NystromOptions& options) {
  check_rows(in, options);
  const auto& [weights, biases, int8] = in.projections;
  require((weights.size() == 1 || weights.size() == 2) && biases.size() == weights.size(),
          "nystrom_attention: expected one or two projections of landmarks, got {} weights and {} "
          "biases",
          weights.size(), biases.size());
  const std::int64_t out = options.heads * in.queries.dim(-1);
  const auto has_type = [&](const Var& x) { return x.dtype() == in.hidden.dtype(); };
  require(std::ranges::all_of(weights, has_type) && std::ranges::all_of(biases, has_type) &&
              (!in.taps.defined() || has_type(in.taps)),
          "nystrom_attention: weights, biases and taps need the type of hidden, {}",
          in.hidden.dtype());
  for (std::size_t i = 0; i < weights.size(); ++i)
    require(weights[i].shape() == Shape{out, in.hidden.dim(-1)} && biases[i].shape() == Shape{out},
            "nystrom_attention: a projection has the weight {} and the bias {}, expected [{}, {}] "
            "and [{}]",
            weights[i].shape(), biases[i].shape(), out, in.hidden.dim(-1), out);
  require(!in.taps.defined() || has_taps(in.taps.shape(), options.heads),
          "nystrom_attention: the taps are {}, expected [{}, k] or [{}, 1, k, 1] with k odd",
          in.taps.shape(), options.heads, options.heads);
  require(options.landmarks >= 1 && options.landmarks <= most_landmarks,
          "nystrom_attention: needs 1 to {} landmarks, got {}", most_landmarks, options.landmarks);
  require_iterations("nystrom_attention", options.iterations);
}

// ---- The composed form --------------------------------------------------------------------------

struct Landmarks {
  Var queries, keys;  // [b, h, m, d]
};

/// Landmarks [b, h, m, d] rotated by the angles of their rows, one sequence behind another.
Var turned(const Var& landmarks, const Tensor& angles) {
  const std::int64_t rows = landmarks.dim(0) * landmarks.dim(2);
  const Var by_sequence = transpose(landmarks, 1, 2);  // [b, m, h, d]
  const Var flat = reshape(by_sequence, {rows, landmarks.dim(1), landmarks.dim(3)});
  const RowSpans all({{0, rows}}, landmarks.value().device());
  return transpose(reshape(rotate(flat, all, angles), by_sequence.shape()), 1, 2);
}

Landmarks landmarks_of(const NystromInputs& in, const NystromOptions& o) {
  const Var means = segment_means(in.hidden, o.keys, o.landmarks);
  const auto& [weights, biases, int8] = in.projections;
  const Var factor = int8 ? Var(round_to_uint8(means.value())) : means;
  const DType sums = means.dtype(), dtype = in.hidden.dtype();
  const auto project = [&](const Var& weight, const Var& bias) {
    const Var rows =
        linear(factor, cast(weight, sums), cast(bias, sums), landmark_precision(dtype));
    const Var plain = split_heads(rows, o.heads);
    const Var heads = o.landmark_angles.defined() ? turned(plain, o.landmark_angles) : plain;
    return is_half(dtype) ? round_to(heads, dtype) : heads;
  };
  const Var keys = project(weights.back(), biases.back());
  return {weights.size() == 1 ? keys : project(weights[0], biases[0]), keys};
}

/// A⁺ x.
Var apply_inverse(const Var& a, const Var& x, const NystromOptions& o) {
  switch (o.inverse) {
    case Inverse::iterative:
      return matmul(pseudo_inverse_iterative(a, o.iterations, o.pinv_scale), x);
    case Inverse::exact: return matmul(pseudo_inverse_exact(a), x);
    case Inverse::identity: break;
  }
  return x;
}

/// [r, h, d] or [b, h, n, d] by rows: [r, h, d] or [b, n, h, d].
Var by_rows(const Var& x) { return x.rank() == 4 ? transpose(x, 1, 2) : x; }

/// Everything with m rows has the accumulate type.
Var composed(const NystromInputs& in, const NystromOptions& o) {
  const auto [qs, ks] = landmarks_of(in, o);
  Var y = attention(qs, in.keys, in.values,
                    {.scale = o.scale,
                     .out = qs.dtype(),
                     .keys = o.keys,
                     .key_mask = o.key_mask,
                     .empty_rows = o.empty_rows});
  if (o.inverse != Inverse::identity || o.observe_matrix) {
    Var a = softmax(matmul(o.scale * qs, transpose(ks, -1, -2)));
    if (o.observe_matrix) o.observe_matrix(a);
    y = apply_inverse(a, y, o);
  }
  const Var out = attention(in.queries, ks, y,
                            {.scale = o.scale, .out = in.queries.dtype(), .queries = o.queries});
  if (!in.taps.defined()) return merge_heads(out);
  const Var taps = reshape(in.taps, {o.heads, in.taps.value().numel() / o.heads});
  const Var sum = by_rows(out) + sequence_conv(by_rows(in.values), taps, o.queries);
  return reshape(sum, in.hidden.shape().without(-1).append(o.heads * sum.dim(-1)));
}

}  // namespace

NystromInputs NystromInputs::joint(const Var& hidden, const Var& qkv, std::int64_t heads,
                                   LandmarkProjections projections, const Var& taps) {
  require(qkv.rank() >= 2 && heads >= 1 && qkv.dim(-1) % (3 * heads) == 0,
          "nystrom_attention: qkv is {}, expected [r, 3·h·d] or [b, n, 3·h·d] for {} heads",
          qkv.shape(), heads);
  const auto part = [&](std::int64_t i) { return split_heads(qkv, heads, i, 3); };
  return {hidden, part(0), part(1), part(2), std::move(projections), taps, qkv};
}

Var nystrom_attention(const NystromInputs& inputs, const NystromOptions& options) {
  check(inputs, options);
  const bool fused = inputs.qkv.defined() && options.inverse == Inverse::iterative &&
                     !options.observe_matrix && !inputs.projections.int8;
  return fused ? fused_nystrom_attention(inputs, options) : composed(inputs, options);
}

}  // namespace nystrom
