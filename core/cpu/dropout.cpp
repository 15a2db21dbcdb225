// Counter-based dropout: the mask of an element depends on its sample and position only
// (core/rng.h).
#include "core/cpu/level.h"

#include "core/cpu/dropout_row.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {

void dropout(CView x, CView sample_ids, DropoutKey key, double p, View y) {
  const std::int64_t count = x.shape[0], size = count == 0 ? 0 : x.numel() / count;
  const SampleRows samples{sample_ids.as<std::int64_t>(), sample_ids.rank == 2};
  constexpr std::int64_t block = 4 * lanes;
  const std::int64_t blocks = (size + block - 1) / block;
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    const DropoutMask<A> mask(key, p);
    parallel_ranges(
        count * blocks, elementwise_grain / block, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t s = i / blocks, first = i % blocks * block;
            const std::int64_t n = size - first < block ? size - first : block;
            A factor[block];
            mask.factors(samples.sample(s), samples.first_row(s) * size + first, n, factor);
            const T* source = x.as<T>() + s * size + first;
            T* target = y.as<T>() + s * size + first;
#pragma omp simd
            for (std::int64_t e = 0; e < n; ++e)
              target[e] = convert<T>(factor[e] != 0 ? factor[e] * load(source[e]) : A(0));
          }
        });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
