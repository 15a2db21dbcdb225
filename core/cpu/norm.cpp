// Layer normalisation (Ba et al., arXiv 1607.06450) of one input or of a residual sum, with
// statistics in the accumulate type.
#include "core/cpu/level.h"

#include <cmath>

#include "core/cpu/dropout_row.h"
#include "core/cpu/parallel.h"
#include "core/cpu/reduce.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

template <class T>
struct Norm {
  using A = accumulate_t<T>;
  const T *gamma, *beta;
  A epsilon;
  std::int64_t n;
  A *mean, *rstd;

  NYSTROM_INLINE void operator()(const T* row, std::int64_t r, T* out) const {
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += load(row[i]);
    const A rough = sum / static_cast<A>(n);
    // The rounding of the first mean, which large numbers with small differences would show.
    A rest = 0, squares = 0;
#pragma omp simd reduction(+ : rest, squares)
    for (std::int64_t i = 0; i < n; ++i) {
      const A d = load(row[i]) - rough;
      rest += d;
      squares += d * d;
    }
    const A shift = rest / static_cast<A>(n), m = rough + shift;
    const A variance = squares / static_cast<A>(n) - shift * shift;
    const A s = 1 / std::sqrt((variance < 0 ? A(0) : variance) + epsilon);
    mean[r] = m;
    rstd[r] = s;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = convert<T>((load(row[i]) - m) * s * load(gamma[i]) + load(beta[i]));
  }
};

/// The gradient of a row. With x̂ = (x − mean) · rstd and g = dy ∘ gamma: dx = rstd (g − mean(g) −
/// x̂ mean(g ∘ x̂)); dgamma = Σ dy ∘ x̂; dbeta = Σ dy.
template <class T>
struct NormGradient {
  using A = accumulate_t<T>;
  const T *x, *gamma, *dy;
  const A *mean, *rstd;
  std::int64_t n;
  T* dx;

  NYSTROM_INLINE void operator()(std::int64_t r, A* chunk) const {
    // Local pointers: reads through `this` would prevent vectorisation.
    const T* row = x + r * n;
    const T* grad = dy + r * n;
    const T* weight = gamma;
    T* out = dx + r * n;
    A* __restrict sum_gamma = chunk;
    A* __restrict sum_beta = chunk + n;
    const A m = mean[r], s = rstd[r];
    A mean_g = 0, mean_gx = 0;
#pragma omp simd reduction(+ : mean_g, mean_gx)
    for (std::int64_t i = 0; i < n; ++i) {
      const A g = load(grad[i]) * load(weight[i]);
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
      out[i] = convert<T>(s * (d * load(weight[i]) - mean_g - normal * mean_gx));
    }
  }
};

/// Calls row(r, sums of its chunk) for all rows, and adds the sums to dgamma and dbeta.
template <class A, class Row>
void sum_parameter_gradients(std::int64_t rows, std::int64_t n, A* dgamma, A* dbeta,
                             const Row& row) {
  const ColumnSums<A> sums(rows, 2 * n);
  sums.run(row);
  for (std::int64_t i = 0; i < n; ++i) {
    dgamma[i] += sums.total(i);
    dbeta[i] += sums.total(n + i);
  }
}

}  // namespace

void layer_norm(CView x, CView residual, CView sample_ids, DropoutKey key, double p, CView gamma,
                CView beta, double epsilon, View sum, View y, View mean, View rstd) {
  const std::int64_t n = x.dim(-1), rows = x.rows(), per_sample = rows == 0 ? 1 : rows / x.shape[0];
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const Norm<T> norm{gamma.as<T>(), beta.as<T>(), static_cast<A>(epsilon), n,
                       mean.as<A>(),  rstd.as<A>()};
    const DropoutMask<A> mask(key, p);
    const SampleRows samples{sample_ids.as<std::int64_t>(), sample_ids.rank == 2};
    parallel_ranges(rows, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
      const Scratch<A> factor(n);
      for (std::int64_t i = 0; i < n; ++i) factor[i] = 1;
      for (std::int64_t r = begin; r < end; ++r) {
        if (!residual) {
          norm(x.as<T>() + r * n, r, y.as<T>() + r * n);
          continue;
        }
        if (sample_ids) mask.factors_of_row(samples, r, per_sample, n, factor.get());
        const T* __restrict px = x.as<T>() + r * n;
        const T* __restrict pr = residual.as<T>() + r * n;
        T* __restrict ps = sum.as<T>() + r * n;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
          ps[i] = convert<T>(load(pr[i]) + (factor[i] != 0 ? factor[i] * load(px[i]) : A(0)));
        norm(ps, r, y.as<T>() + r * n);
      }
    });
  });
}

void layer_norm_grad(CView sum, CView sample_ids, DropoutKey key, double p, CView gamma, CView mean,
                     CView rstd, CView dy, View dsum, View dx, View dgamma, View dbeta,
                     View dx_sums) {
  const std::int64_t n = sum.dim(-1), rows = sum.rows(),
                     per_sample = rows == 0 ? 1 : rows / sum.shape[0];
  visit_float(sum.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const NormGradient<T> gradient{
        sum.as<T>(), gamma.as<T>(), dy.as<T>(), mean.as<A>(), rstd.as<A>(), n, dsum.as<T>()};
    const DropoutMask<A> mask(key, p);
    const SampleRows samples{sample_ids.as<std::int64_t>(), sample_ids.rank == 2};
    sum_parameter_gradients(rows, n, dgamma.as<A>(), dbeta.as<A>(), [&](std::int64_t r, A* chunk) {
      gradient(r, chunk);
      if (!dx) return;
      const Scratch<A> factor(n);
      mask.factors_of_row(samples, r, per_sample, n, factor.get());
      const T* __restrict from = dsum.as<T>() + r * n;
      T* __restrict to = dx.as<T>() + r * n;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = convert<T>(factor[i] != 0 ? factor[i] * load(from[i]) : A(0));
    });
  });
  if (dx_sums) sum_over_rows(dx ? dx : dsum, dx_sums);
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
