// Counter-based dropout: the mask of an element depends on its sample and position only
// (core/rng.h). One thread computes a Philox block of four elements.
#include "core/cuda/dropout_mask.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

template <class T>
__global__ void dropout_kernel(const T* x, const std::int64_t* sample_ids,
                               DropoutMask<accumulate_t<T>> mask, std::int64_t samples,
                               std::int64_t size, T* y) {
  using A = accumulate_t<T>;
  const std::int64_t quads = (size + 3) / 4;
  for (std::int64_t i = grid_index(); i < samples * quads; i += grid_size()) {
    const std::int64_t sample = i / quads, quad = i % quads;
    const PhiloxBlock words = mask.words(sample_ids[sample], quad);
    const std::int64_t first = sample * size + quad * 4;
    for (int e = 0; e < 4 && quad * 4 + e < size; ++e) {
      const A factor = mask.factor(words.word[e]);
      y[first + e] = convert<T>(factor == 0 ? A(0) : factor * load(x[first + e]));
    }
  }
}

}  // namespace

void dropout(CView x, CView sample_ids, DropoutKey key, double p, View y) {
  const std::int64_t samples = x.shape[0];
  if (x.numel() == 0) return;
  const std::int64_t size = x.numel() / samples;
  visit_any_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(dropout_kernel<T>, dim3(blocks_for(samples * divide_up(size, 4), 256)), dim3(256), 0,
           x.as<T>(), sample_ids.as<std::int64_t>(), DropoutMask<accumulate_t<T>>(key, p), samples,
           size, y.as<T>());
  });
}

}  // namespace nystrom::kernels::cuda
