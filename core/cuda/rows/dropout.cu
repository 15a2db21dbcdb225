// Counter-based dropout: the mask of an element depends on its sample and position only
// (core/rng.h). One thread computes a Philox block of four elements.
#include "core/cuda/launch.cuh"
#include "core/cuda/rows/dropout_mask.cuh"
#include "core/kernels.h"

namespace nystrom::kernels::cuda {
namespace {

using namespace nystrom::cuda;

/// The Philox blocks that `size` elements touch. Chosen rows may begin within a block.
NYSTROM_HOST_DEVICE inline std::int64_t quads_of(std::int64_t size, const SampleRows& rows) {
  return (size + 3) / 4 + (rows.chosen ? 1 : 0);
}

template <class T>
__global__ void dropout_kernel(const T* x, SampleRows rows, DropoutMask<accumulate_t<T>> mask,
                               std::int64_t samples, std::int64_t size, T* y) {
  using A = accumulate_t<T>;
  const std::int64_t quads = quads_of(size, rows);
  for (std::int64_t i = grid_index(); i < samples * quads; i += grid_size()) {
    const std::int64_t sample = i / quads, before = rows.first_row(sample) * size;
    const std::int64_t quad = before / 4 + i % quads;
    const PhiloxBlock words = mask.words(rows.sample(sample), quad);
    for (int e = 0; e < 4; ++e) {
      const std::int64_t element = quad * 4 + e - before;
      if (element < 0 || element >= size) continue;
      const A factor = mask.factor(words.word[e]);
      const std::int64_t place = sample * size + element;
      y[place] = convert<T>(factor == 0 ? A(0) : factor * load(x[place]));
    }
  }
}

}  // namespace

void dropout(CView x, CView sample_ids, DropoutKey key, double p, View y) {
  const std::int64_t samples = x.shape[0];
  if (x.numel() == 0) return;
  const std::int64_t size = x.numel() / samples;
  const SampleRows rows{sample_ids.as<std::int64_t>(), sample_ids.rank == 2};
  visit_any_float(x.dtype, [&]<class T>(TypeTag<T>) {
    launch(dropout_kernel<T>, dim3(blocks_for(samples * quads_of(size, rows), 256)), dim3(256), 0,
           x.as<T>(), rows, DropoutMask<accumulate_t<T>>(key, p), samples, size, y.as<T>());
  });
}

}  // namespace nystrom::kernels::cuda
