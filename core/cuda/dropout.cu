// Dropout by counters: the mask of an element depends on its sample and place alone (core/rng.h). A thread a Philox block of four.
#include "core/cuda/device.cuh"
#include "core/cuda/launch.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

template <class T>
__global__ void dropout_kernel(const T* x, const std::int64_t* sample_ids, PhiloxKey key, std::uint32_t site, std::uint32_t threshold,
                               accumulate_t<T> scale, std::int64_t samples, std::int64_t size, T* y) {
  const std::int64_t quads = (size + 3) / 4;
  for (std::int64_t i = grid_index(); i < samples * quads; i += grid_size()) {
    const std::int64_t sample = i / quads, quad = i % quads;
    const auto id = static_cast<std::uint64_t>(sample_ids[sample]);
    const PhiloxBlock words =
        philox(key, {{static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32), site}});
    const std::int64_t first = sample * size + quad * 4;
    for (int e = 0; e < 4 && quad * 4 + e < size; ++e)
      y[first + e] = convert<T>(words.word[e] < threshold ? accumulate_t<T>(0) : scale * load(x[first + e]));
  }
}

}  // namespace

void dropout(CView x, CView sample_ids, DropoutKey key, double p, View y) {
  const std::int64_t samples = x.shape[0];
  if (x.numel() == 0) return;
  const std::int64_t size = x.numel() / samples;
  visit_float(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // An element is dropped when its word lies below p · 2³².
    launch(dropout_kernel<T>, dim3(blocks_for(samples * divide_up(size, 4), 256)), dim3(256), 0, x.as<T>(), sample_ids.as<std::int64_t>(),
           philox_key(key.seed, key.step), key.site, static_cast<std::uint32_t>(p * 4294967296.0),
           static_cast<accumulate_t<T>>(1 / (1 - p)), samples, size, y.as<T>());
  });
}

}  // namespace nystrom::kernels::cuda
