#include "nn/attention_diagnostics.h"

#include <cmath>

#include "core/check.h"

namespace nystrom {
namespace {

/// Calls f(head, row) with every row of x [1, h, n, c].
template <class F>
void each_row(const Tensor& x, const F& f) {
  require(x.rank() == 4 && x.dim(0) == 1, "diagnostics take a batch of one sequence, got {}",
          x.shape());
  for (std::int64_t head = 0; head < x.dim(1); ++head)
    for (std::int64_t t = 0; t < x.dim(2); ++t)
      f(static_cast<std::size_t>(head), (head * x.dim(2) + t) * x.dim(3));
}

}  // namespace

Tensor attention_matrix(const AttentionMethod& method, const AttentionInputs& in) {
  const NoGrad constant;
  const std::int64_t heads = in.queries.dim(1), n = in.queries.dim(2);
  const Tensor one = identity(n, in.values.dtype(), in.values.value().device());
  return method(in.with_values(one.expand({1, heads, n, n}))).value();
}

double relative_error(double difference, double size) {
  return difference == 0 ? 0 : difference / size;
}

std::vector<double> relative_errors(const Tensor& x, const Tensor& y) {
  const std::vector<double> got = x.to_doubles(), expected = y.to_doubles();
  std::vector<double> difference(static_cast<std::size_t>(y.dim(1)), 0.0), size = difference;
  each_row(y, [&](std::size_t head, std::int64_t row) {
    for (std::int64_t i = row; i < row + y.dim(3); ++i) {
      const double e = expected[static_cast<std::size_t>(i)],
                   d = got[static_cast<std::size_t>(i)] - e;
      difference[head] += d * d;
      size[head] += e * e;
    }
  });
  for (std::size_t head = 0; head < size.size(); ++head)
    difference[head] = std::sqrt(relative_error(difference[head], size[head]));
  return difference;
}

std::vector<std::vector<double>> inverse_residuals(const Tensor& matrices,
                                                   std::int64_t iterations) {
  const NoGrad constant;
  const std::int64_t heads = matrices.dim(1), m = matrices.dim(2);
  const Tensor a = matrices.contiguous().reshape({heads, m, m});
  Tensor z = Tensor::empty({iterations + 1, heads, m, m}, a.dtype(), a.device());
  kernels::pseudo_inverse_iterative(a, PinvScale::per_matrix, z);
  std::vector<std::vector<double>> result;
  for (std::int64_t step = 0; step <= iterations; ++step) {
    const Var iterate = z.slice(0, step, step + 1).reshape({heads, m, m});
    const Tensor product = matmul(matmul(a, iterate), a).value();
    result.push_back(
        relative_errors(product.reshape({1, heads, m, m}), a.reshape({1, heads, m, m})));
  }
  return result;
}

std::vector<double> attention_entropies(const Tensor& matrix) {
  const std::vector<double> values = matrix.to_doubles();
  std::vector<double> total(static_cast<std::size_t>(matrix.dim(1)), 0.0);
  each_row(matrix, [&](std::size_t head, std::int64_t row) {
    for (std::int64_t i = row; i < row + matrix.dim(3); ++i) {
      const double p = values[static_cast<std::size_t>(i)];
      if (p > 0) total[head] -= p * std::log(p);
    }
  });
  for (double& entropy : total) entropy /= static_cast<double>(matrix.dim(2));
  return total;
}

}  // namespace nystrom
