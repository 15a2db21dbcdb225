// One AdamW step in one pass over the slabs.
#include "core/cpu/level.h"

#include <cmath>

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

template <class A>
NYSTROM_INLINE void adamw_range(A* __restrict p, const A* __restrict g, A* __restrict m,
                                A* __restrict v, std::int64_t n, double decay, const AdamWStep& s) {
  const A keep = static_cast<A>(1 - s.learning_rate * decay);
  const A beta1 = static_cast<A>(s.beta1), beta2 = static_cast<A>(s.beta2);
  const A rest1 = static_cast<A>(1 - s.beta1), rest2 = static_cast<A>(1 - s.beta2);
  const A step = static_cast<A>(s.learning_rate / s.bias_correction1);
  const A correction2 = static_cast<A>(1 / std::sqrt(s.bias_correction2));
  const A epsilon = static_cast<A>(s.epsilon), scale = static_cast<A>(s.gradient_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A grad = g[i] * scale;
    m[i] = beta1 * m[i] + rest1 * grad;
    v[i] = beta2 * v[i] + rest2 * grad * grad;
    p[i] = p[i] * keep - step * m[i] / (std::sqrt(v[i]) * correction2 + epsilon);
  }
}

}  // namespace

void adamw(View parameter, CView gradient, View moment1, View moment2, View low, CView segment_end,
           CView segment_decay, AdamWStep step) {
  // Few enough that the copy in 16 bits reads them from the cache.
  constexpr std::int64_t most = 8192;
  const std::int64_t segments = segment_end.numel();
  const auto* ends = segment_end.as<std::int64_t>();
  visit_accumulate(parameter.dtype, [&]<class A>(TypeTag<A>) {
    parallel_ranges(
        parameter.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
          std::int64_t segment = 0;
          for (std::int64_t at = begin; at < end;) {
            while (segment < segments - 1 && ends[segment] <= at) ++segment;
            std::int64_t stop = ends[segment] < end ? ends[segment] : end;
            if (stop > at + most) stop = at + most;
            adamw_range(parameter.as<A>() + at, gradient.as<A>() + at, moment1.as<A>() + at,
                        moment2.as<A>() + at, stop - at, segment_decay.as<double>()[segment], step);
            if (low) convert_row(parameter.as<A>() + at, low.as<bf16>() + at, stop - at);
            at = stop;
          }
        });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
