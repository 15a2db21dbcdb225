// One AdamW step in one pass over the slabs.
#include <cmath>

#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

/// The segment of element `at`: the first one that ends after it.
NYSTROM_DEVICE std::int64_t segment_of(const std::int64_t* ends, std::int64_t segments,
                                       std::int64_t at) {
  std::int64_t low = 0, high = segments - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (ends[middle] > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

template <class A>
struct Factors {
  A beta1, rest1, beta2, rest2, step, correction2, epsilon, scale;
};

template <class A>
__global__ void adamw_kernel(A* __restrict__ parameter, const A* __restrict__ gradient,
                             A* __restrict__ moment1, A* __restrict__ moment2, Mixed<A, false> low,
                             const std::int64_t* ends, const double* decays, std::int64_t segments,
                             std::int64_t count, double rate, Factors<A> f) {
  for (std::int64_t i = grid_index(); i < count; i += grid_size()) {
    const A keep = static_cast<A>(1 - rate * decays[segment_of(ends, segments, i)]);
    const A grad = gradient[i] * f.scale;
    const A m = f.beta1 * moment1[i] + f.rest1 * grad;
    const A v = f.beta2 * moment2[i] + f.rest2 * grad * grad;
    const A p = parameter[i] * keep - f.step * m / (sqrt(v) * f.correction2 + f.epsilon);
    moment1[i] = m;
    moment2[i] = v;
    parameter[i] = p;
    if (low.data) low.set(i, p);
  }
}

}  // namespace

void adamw(View parameter, CView gradient, View moment1, View moment2, View low, CView segment_end,
           CView segment_decay, AdamWStep s) {
  visit_accumulate(parameter.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Factors<A> factors{static_cast<A>(s.beta1),
                             static_cast<A>(1 - s.beta1),
                             static_cast<A>(s.beta2),
                             static_cast<A>(1 - s.beta2),
                             static_cast<A>(s.learning_rate / s.bias_correction1),
                             static_cast<A>(1 / std::sqrt(s.bias_correction2)),
                             static_cast<A>(s.epsilon),
                             static_cast<A>(s.gradient_scale)};
    launch(adamw_kernel<A>, dim3(blocks_for(parameter.numel(), 256)), dim3(256), 0,
           parameter.as<A>(), gradient.as<A>(), moment1.as<A>(), moment2.as<A>(), mixed<A>(low),
           segment_end.as<std::int64_t>(), segment_decay.as<double>(), segment_end.numel(),
           parameter.numel(), s.learning_rate * s.weight_decay, factors);
  });
}

}  // namespace nystrom::kernels::cuda
