// Rows by index: embeddings and selected positions.
#include "core/cpu/level.h"

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {

void gather_rows(CView x, CView index, View y) {
  const std::int64_t width = y.dim(-1);
  const auto* id = index.as<std::int64_t>();
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    parallel_each(index.numel(), row_grain(width), [&](std::int64_t r) {
      T* target = y.as<T>() + r * width;
      if (id[r] < 0) {
        for (std::int64_t i = 0; i < width; ++i) target[i] = convert<T>(0.0f);
      } else {
        const T* source = x.as<T>() + id[r] * width;
        for (std::int64_t i = 0; i < width; ++i) target[i] = source[i];
      }
    });
  });
}

void scatter_add_rows(CView x, CView index, std::int64_t skip, View y) {
  const std::int64_t width = x.dim(-1), rows = index.numel();
  const auto* id = index.as<std::int64_t>();
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    visit_float(y.dtype, [&]<class Out>(TypeTag<Out>) {
      // Threads divide the columns and add the rows in order. So no two threads write the same
      // element, and sums are deterministic.
      parallel_ranges(width, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = 0; r < rows; ++r) {
          if (id[r] < 0 || id[r] == skip) continue;
          const T* __restrict source = x.as<T>() + r * width;
          Out* __restrict target = y.as<Out>() + id[r] * width;
          for (std::int64_t i = begin; i < end; ++i) {
            target[i] =
                convert<Out>(load(target[i]) + static_cast<accumulate_t<Out>>(load(source[i])));
          }
        }
      });
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
