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
struct Slabs {
  A* __restrict__ parameter;
  const A* __restrict__ gradient;
  A* __restrict__ moment1, * __restrict__ moment2;
  Mixed<A, false> low;
};

/// A thread takes packs of V neighbours, and searches for the segment once a pack.
template <class A, int V>
__global__ void adamw_kernel(Slabs<A> slabs, const std::int64_t* ends, const double* decays,
                             std::int64_t segments, std::int64_t packs, double rate, Factors<A> f) {
  for (std::int64_t at = grid_index(); at < packs; at += grid_size()) {
    const std::int64_t first = at * V;
    auto p = load_pack<V>(slabs.parameter + first);
    const auto g = load_pack<V>(slabs.gradient + first);
    auto m = load_pack<V>(slabs.moment1 + first), v = load_pack<V>(slabs.moment2 + first);
    std::int64_t segment = segment_of(ends, segments, first);
    A keep = static_cast<A>(1 - rate * decays[segment]);
    NYSTROM_UNROLL
    for (int i = 0; i < V; ++i) {
      while (first + i >= ends[segment]) keep = static_cast<A>(1 - rate * decays[++segment]);
      const A grad = g.value[i] * f.scale;
      m.value[i] = f.beta1 * m.value[i] + f.rest1 * grad;
      v.value[i] = f.beta2 * v.value[i] + f.rest2 * grad * grad;
      p.value[i] =
          p.value[i] * keep - f.step * m.value[i] / (sqrt(v.value[i]) * f.correction2 + f.epsilon);
    }
    store_pack(slabs.parameter + first, p);
    store_pack(slabs.moment1 + first, m);
    store_pack(slabs.moment2 + first, v);
    if (slabs.low.data) slabs.low.set_pack(first, p);
  }
}

}  // namespace

void adamw(View parameter, CView gradient, View moment1, View moment2, View low, CView segment_end,
           CView segment_decay, AdamWStep s) {
  visit_accumulate(parameter.dtype, [&]<class A>(TypeTag<A>) {
    const Factors<A> factors{static_cast<A>(s.beta1),
                             static_cast<A>(1 - s.beta1),
                             static_cast<A>(s.beta2),
                             static_cast<A>(1 - s.beta2),
                             static_cast<A>(s.learning_rate / s.bias_correction1),
                             static_cast<A>(1 / std::sqrt(s.bias_correction2)),
                             static_cast<A>(s.epsilon),
                             static_cast<A>(s.gradient_scale)};
    const Slabs<A> slabs{parameter.as<A>(), gradient.as<A>(), moment1.as<A>(), moment2.as<A>(),
                         mixed<A>(low)};
    with_pack<A>(parameter.numel(),
                 {parameter.data, gradient.data, moment1.data, moment2.data, low.data},
                 [&](auto pack) {
                   const std::int64_t packs = parameter.numel() / pack();
                   launch(adamw_kernel<A, pack()>, dim3(blocks_for(packs, 256)), dim3(256), 0,
                          slabs, segment_end.as<std::int64_t>(), segment_decay.as<double>(),
                          segment_end.numel(), packs, s.learning_rate, factors);
                 });
  });
}

}  // namespace nystrom::kernels::cuda
