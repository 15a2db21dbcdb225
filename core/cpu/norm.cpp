// Layer normalisation (Ba et al., arXiv 1607.06450), statistics in the accumulate type.
#include "core/cpu/level.h"

#include <cmath>

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/cpu/reduce.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {

void layer_norm(CView x, CView gamma, CView beta, double epsilon, View y, View mean, View rstd) {
  const std::int64_t n = x.dim(-1);
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    const T* scale = gamma.as<T>();
    const T* shift = beta.as<T>();
    parallel_ranges(x.rows(), elementwise_grain / (n + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* row = x.as<T>() + r * n;
        T* out = y.as<T>() + r * n;
        A sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < n; ++i) sum += load(row[i]);
        const A m = sum / static_cast<A>(n);
        A squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t i = 0; i < n; ++i) squares += (load(row[i]) - m) * (load(row[i]) - m);
        const A s = 1 / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(epsilon));
        mean.as<A>()[r] = m;
        rstd.as<A>()[r] = s;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) out[i] = convert<T>((load(row[i]) - m) * s * load(scale[i]) + load(shift[i]));
      }
    });
  });
}

// With x̂ = (x − mean) · rstd and g = dy ∘ gamma: dx = rstd (g − mean(g) − x̂ mean(g ∘ x̂)); dgamma = Σ dy ∘ x̂; dbeta = Σ dy.
void layer_norm_grad(CView x, CView gamma, CView mean, CView rstd, CView dy, View dx, View dgamma, View dbeta) {
  const std::int64_t n = x.dim(-1);
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    const T* scale = gamma.as<T>();
    const ColumnSums<A> sums(x.rows(), 2 * n);
    sums.run([&](std::int64_t r, A* chunk) {
      const T* row = x.as<T>() + r * n;
      const T* grad = dy.as<T>() + r * n;
      T* out = dx.as<T>() + r * n;
      A* __restrict sum_gamma = chunk;
      A* __restrict sum_beta = chunk + n;
      const A m = mean.as<A>()[r], s = rstd.as<A>()[r];
      A mean_g = 0, mean_gx = 0;
#pragma omp simd reduction(+ : mean_g, mean_gx)
      for (std::int64_t i = 0; i < n; ++i) {
        const A g = load(grad[i]) * load(scale[i]);
        mean_g += g;
        mean_gx += g * (load(row[i]) - m) * s;
      }
      mean_g /= static_cast<A>(n);
      mean_gx /= static_cast<A>(n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const A d = load(grad[i]);
        const A normal = (load(row[i]) - m) * s;
        sum_gamma[i] += d * normal;
        sum_beta[i] += d;
        out[i] = convert<T>(s * (d * load(scale[i]) - mean_g - normal * mean_gx));
      }
    });
    for (std::int64_t i = 0; i < n; ++i) {
      dgamma.as<A>()[i] += sums.total(i);
      dbeta.as<A>()[i] += sums.total(n + i);
    }
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
