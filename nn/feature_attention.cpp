#include <cmath>
#include <memory>
#include <mutex>

#include "nn/baselines.h"

namespace nystrom {
namespace {

/// [b, h, n, c] as [b, n, h, c], its layout in memory before the heads were split.
Var by_position(const Var& x) { return transpose(x, 1, 2); }

/// φ(q) (φ(k)ᵀ v) / φ(q) (φ(k)ᵀ 1): features [b, n, h, r] and values [b, h, n, d] → [b, h, n, d].
Var normalised(const Var& query_features, const Var& key_features, const Var& values) {
  const Var fq = transpose(query_features, 1, 2);
  const Var fkt = transpose(transpose(key_features, 1, 2), -1, -2);
  const Device device = values.value().device();
  const Var ones = Tensor::full({1, 1, values.dim(2), 1}, 1, values.dtype(), device);
  return matmul(fq, matmul(fkt, values)) / matmul(fq, matmul(fkt, ones));
}

/// With the slope 1 at 0, where relu has 0.
Var elu_plus_one(const Var& x) {
  const Var positive = relu(x);
  return positive + exp(x - positive);
}

/// The shift of each row of x [rows, c] that brings features elu(x) + 1 with a sum below 1 to the
/// sum 1; 0 for others. Since elu(x + s) + 1 = exp(s) (elu(x) + 1) there, it cancels in the
/// quotient, whose products would underflow without it. It is a constant.
Tensor lift(const Tensor& x) {
  const NoGrad constant;
  const Shape rows{x.dim(0)};
  Tensor unused = Tensor::empty(rows, x.dtype(), x.device());
  Tensor log_sums = Tensor::empty(rows, DType::f64, x.device());
  kernels::cross_entropy(x, Tensor::zeros(rows, DType::i64, x.device()), 0, unused, log_sums, {});
  return relu(affine(log_sums.cast(x.dtype()), -1)).value();
}

/// log Σ exp(w k − |k|²/2) over the keys k [b, n, h, d], for each feature w: [b, 1, h, r]. It is a
/// constant.
Tensor log_sums_of_keys(const Tensor& features, const Tensor& keys, const Tensor& half_squares) {
  const NoGrad constant;
  const std::int64_t b = keys.dim(0), h = keys.dim(2), r = features.dim(0), d = features.dim(1);
  const Tensor ones = Tensor::full({r, 1}, -1, keys.dtype(), keys.device());
  const Tensor q =
      concat({features, ones}, 1).value().reshape({1, 1, r, d + 1}).expand({b, h, r, d + 1});
  const Tensor k = concat({keys, half_squares}, 3).value().transpose(1, 2);
  Tensor unused = Tensor::empty({b, h, r, 1}, keys.dtype(), keys.device());
  Tensor result = Tensor::empty({b, h, r}, keys.dtype(), keys.device());
  kernels::attention(q, k, k.slice(3, 0, 1), {}, {}, CView{}, EmptyRows::zero, 1, unused, result);
  return result.reshape({b, 1, h, r});
}

}  // namespace

Var double_softmax_attention(const Var& q, const Var& k, const Var& v,
                             const std::vector<std::int64_t>&) {
  const DType exact = accumulate_dtype(q.dtype());
  const std::int64_t b = q.dim(0), h = q.dim(1), d = q.dim(3);
  const Tensor one = identity(d, exact, q.value().device());
  // A softmax over positions for each feature is attention with unit vectors as queries.
  const Var context = attention(one.expand({b, h, d, d}), k, v, {.scale = 1, .out = exact});
  return cast(matmul(softmax(cast(q, exact)), context), q.dtype());
}

Var linear_attention(const Var& q, const Var& k, const Var& v, const std::vector<std::int64_t>&) {
  const DType exact = accumulate_dtype(q.dtype());
  const Var queries = by_position(cast(q, exact)), keys = cast(k, exact);
  const std::int64_t b = q.dim(0), h = q.dim(1), n = q.dim(2), d = q.dim(3);
  const Tensor of_query = lift(queries.value().contiguous().reshape({b * n * h, d})),
               of_keys = lift(keys.value().contiguous().reshape({b * h, k.dim(2) * d}));
  const Var fq = elu_plus_one(queries + of_query.reshape({b, n, h, 1}));
  const Var fk = elu_plus_one(by_position(keys) + of_keys.reshape({b, 1, h, 1}));
  return cast(normalised(fq, fk, cast(v, exact)), q.dtype());
}

Tensor orthogonal_features(std::uint64_t seed, const std::string& name, std::int64_t count,
                           std::int64_t width) {
  std::vector<double> rows = normal_values(seed, name + ".directions", count * width);
  const std::vector<double> lengths = normal_values(seed, name + ".lengths", count * width);
  const auto norm = [width](const double* x) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    return std::sqrt(squares);
  };
  // Gram–Schmidt within each block.
  for (std::int64_t row = 0; row < count; ++row) {
    double* x = rows.data() + row * width;
    for (std::int64_t other = row / width * width; other < row; ++other) {
      const double* y = rows.data() + other * width;
      double inner = 0;
      for (std::int64_t i = 0; i < width; ++i) inner += x[i] * y[i];
      for (std::int64_t i = 0; i < width; ++i) x[i] -= inner * y[i];
    }
    const double scale = 1 / norm(x);
    for (std::int64_t i = 0; i < width; ++i) x[i] *= scale;
  }
  for (std::int64_t row = 0; row < count; ++row) {
    const double length = norm(lengths.data() + row * width);
    for (std::int64_t i = 0; i < width; ++i)
      rows[static_cast<std::size_t>(row * width + i)] *= length;
  }
  return Tensor::from(rows, {count, width});
}

TokenAttention performer_attention(const Scope& scope, const ModelConfig& config) {
  // Drawn when they are first read, for many take seconds.
  struct Features {
    std::once_flag drawn;
    Tensor values;
  };
  const auto features = [held = std::make_shared<Features>(), name = scope.path() + ".features",
                         seed = static_cast<std::uint64_t>(config.attention.random_seed),
                         count = config.attention.num_features,
                         width = config.head_dim()](DType dtype, Device device) {
    if (device.is_planned()) return Tensor::empty({count, width}, dtype, device);
    std::call_once(held->drawn,
                   [&] { held->values = orthogonal_features(seed, name, count, width); });
    return held->values.cast(dtype).to(device);
  };
  return [features](const Var& queries, const Var& keys, const Var& values,
                    const std::vector<std::int64_t>&) {
    const DType exact = accumulate_dtype(queries.dtype());
    const Var w = features(exact, queries.value().device());
    const double scale = std::pow(static_cast<double>(queries.dim(3)), -0.25);
    const Var q = scale * by_position(cast(queries, exact)),
              k = scale * by_position(cast(keys, exact));
    const Var half_squares = reshape(0.5 * sum(square(k), 3), {k.dim(0), k.dim(1), k.dim(2), 1});
    const Var shift = log_sums_of_keys(w.value(), k.value(), half_squares.value());
    const Var fq = softmax(linear(q, w) + shift);
    const Var fk = exp(linear(k, w) - half_squares - shift);
    return cast(normalised(fq, fk, cast(values, exact)), queries.dtype());
  };
}

}  // namespace nystrom
