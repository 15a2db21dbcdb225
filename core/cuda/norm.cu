// Layer normalisation (Ba et al., arXiv 1607.06450), a warp a row, statistics in the accumulate type.
#include <cmath>

#include "core/cuda/reduce.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

constexpr int block = 256;
constexpr int rows_per_block = block / warp_size;

template <class T>
__global__ void layer_norm_kernel(const T* x, const T* gamma, const T* beta, std::int64_t rows, std::int64_t n, accumulate_t<T> epsilon, T* y,
                                  accumulate_t<T>* mean, accumulate_t<T>* rstd) {
  using A = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + warp_index();
  if (r >= rows) return;
  const T* row = x + r * n;
  A sum = 0;
  for (std::int64_t i = lane_index(); i < n; i += warp_size) sum += load(row[i]);
  const A m = warp_sum(sum) / static_cast<A>(n);
  A squares = 0;
  for (std::int64_t i = lane_index(); i < n; i += warp_size) squares += (load(row[i]) - m) * (load(row[i]) - m);
  const A s = 1 / sqrt(warp_sum(squares) / static_cast<A>(n) + epsilon);
  for (std::int64_t i = lane_index(); i < n; i += warp_size)
    y[r * n + i] = convert<T>((load(row[i]) - m) * s * load(gamma[i]) + load(beta[i]));
  if (lane_index() == 0) {
    mean[r] = m;
    rstd[r] = s;
  }
}

// With x̂ = (x − mean) · rstd and g = dy ∘ gamma: dx = rstd (g − mean(g) − x̂ mean(g ∘ x̂)).
template <class T>
__global__ void input_grad_kernel(const T* x, const T* gamma, const accumulate_t<T>* mean, const accumulate_t<T>* rstd, const T* dy,
                                  std::int64_t rows, std::int64_t n, T* dx) {
  using A = accumulate_t<T>;
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + warp_index();
  if (r >= rows) return;
  const T* row = x + r * n;
  const T* grad = dy + r * n;
  const A m = mean[r], s = rstd[r];
  A mean_g = 0, mean_gx = 0;
  for (std::int64_t i = lane_index(); i < n; i += warp_size) {
    const A g = load(grad[i]) * load(gamma[i]);
    mean_g += g;
    mean_gx += g * (load(row[i]) - m) * s;
  }
  mean_g = warp_sum(mean_g) / static_cast<A>(n);
  mean_gx = warp_sum(mean_gx) / static_cast<A>(n);
  for (std::int64_t i = lane_index(); i < n; i += warp_size)
    dx[r * n + i] = convert<T>(s * (load(grad[i]) * load(gamma[i]) - mean_g - (load(row[i]) - m) * s * mean_gx));
}

/// Partial sums of dgamma = Σ dy ∘ x̂ and dbeta = Σ dy over pieces of rows, a thread a column: partial [pieces, 2 n].
template <class T>
__global__ void parameter_grad_kernel(const T* x, const accumulate_t<T>* mean, const accumulate_t<T>* rstd, const T* dy, std::int64_t rows,
                                      std::int64_t n, accumulate_t<T>* partial) {
  using A = accumulate_t<T>;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= n) return;
  const std::int64_t first = blockIdx.y * rows_per_piece, last = first + rows_per_piece < rows ? first + rows_per_piece : rows;
  A sum_gamma = 0, sum_beta = 0;
  for (std::int64_t r = first; r < last; ++r) {
    const A d = load(dy[r * n + column]);
    sum_gamma += d * (load(x[r * n + column]) - mean[r]) * rstd[r];
    sum_beta += d;
  }
  partial[blockIdx.y * 2 * n + column] = sum_gamma;
  partial[blockIdx.y * 2 * n + n + column] = sum_beta;
}

}  // namespace

void layer_norm(CView x, CView gamma, CView beta, double epsilon, View y, View mean, View rstd) {
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    launch(layer_norm_kernel<T>, dim3(static_cast<unsigned>(divide_up(x.rows(), rows_per_block))), dim3(block), 0, x.as<T>(), gamma.as<T>(),
           beta.as<T>(), x.rows(), x.dim(-1), static_cast<A>(epsilon), y.as<T>(), mean.as<A>(), rstd.as<A>());
  });
}

void layer_norm_grad(CView x, CView gamma, CView mean, CView rstd, CView dy, View dx, View dgamma, View dbeta) {
  const std::int64_t rows = x.rows(), n = x.dim(-1), pieces = divide_up(rows, rows_per_piece);
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    launch(input_grad_kernel<T>, dim3(static_cast<unsigned>(divide_up(rows, rows_per_block))), dim3(block), 0, x.as<T>(), gamma.as<T>(),
           mean.as<A>(), rstd.as<A>(), dy.as<T>(), rows, n, dx.as<T>());
    const Workspace<A> partial(dx, pieces * 2 * n);
    launch(parameter_grad_kernel<T>, dim3(static_cast<unsigned>(divide_up(n, block)), static_cast<unsigned>(pieces)), dim3(block), 0,
           x.as<T>(), mean.as<A>(), rstd.as<A>(), dy.as<T>(), rows, n, partial.get());
    sum_pieces(partial.get(), 1, pieces, 2 * n, n, true, dgamma.as<A>());
    sum_pieces(partial.get() + n, 1, pieces, 2 * n, n, true, dbeta.as<A>());
  });
}

}  // namespace nystrom::kernels::cuda
