// Rotary positions (Su et al., arXiv 2104.09864): pairs of columns turned by a row's angles.
#include "core/cpu/level.h"

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/cpu/spans.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {

void rotate(CView x, Spans spans, CView table, bool backwards, View y) {
  const std::int64_t parts = parts_of(x, spans), heads = x.shape[1], half = x.dim(-1) / 2;
  visit_accumulate(table.dtype, [&]<class A>(TypeTag<A>) {
    parallel_ranges(parts * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<A> row(2 * half), turned(2 * half);
      const A sign = backwards ? A(-1) : A(1);
      for (std::int64_t i = begin; i < end; ++i) {
        const Head from = head_of(x, spans, i / heads, i % heads),
                   to = head_of(y, spans, i / heads, i % heads);
        for (std::int64_t r = 0; r < from.rows; ++r) {
          load_row(x, from.offset + r * from.row, row.get(), 2 * half);
          const A* __restrict angle = table.as<A>() + r * 2 * half;
          const A* __restrict a = row.get();
          A* __restrict out = turned.get();
          for (std::int64_t c = 0; c < half; ++c) {
            const A cosine = angle[2 * c], sine = sign * angle[2 * c + 1];
            out[c] = cosine * a[c] - sine * a[half + c];
            out[half + c] = cosine * a[half + c] + sine * a[c];
          }
          store_row(y, to.offset + r * to.row, turned.get(), 2 * half);
        }
      }
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
