// Means over the segments of each span, and their gradient.
#include "core/cpu/level.h"

#include <algorithm>

#include "core/cpu/convert.h"
#include "core/cpu/parallel.h"
#include "core/cpu/reduce.h"
#include "core/cpu/spans.h"
#include "core/kernels.h"

namespace nystrom::kernels::NYSTROM_LEVEL {
namespace {

/// Segment j of a span of rows.
struct Segment {
  std::int64_t first, last;
};
NYSTROM_INLINE Segment segment_of(const Span& span, std::int64_t j, std::int64_t segments) {
  return {span.first + j * span.rows / segments, span.first + (j + 1) * span.rows / segments};
}

/// The span `part` of x [r, c], or of [p, n, c] as rows.
NYSTROM_INLINE Span rows_of_part(const ViewBase& x, const Spans& spans, std::int64_t part) {
  return spans.bounds ? span_of(spans, part, 0) : Span{part * x.shape[1], x.shape[1]};
}

template <class T>
NYSTROM_INLINE void add_up(const T* x, std::int64_t rows, std::int64_t width,
                           accumulate_t<T>* __restrict sums) {
  for (std::int64_t c = 0; c < width; ++c) sums[c] = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* __restrict row = x + r * width;
    for (std::int64_t c = 0; c < width; ++c) sums[c] += load(row[c]);
  }
}

}  // namespace

void segment_means(CView x, Spans spans, View y) {
  const std::int64_t width = x.dim(-1), segments = y.shape[1];
  visit_float(x.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    parallel_ranges(y.shape[0] * segments, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<double> total(width);
      for (std::int64_t s = begin; s < end; ++s) {
        const auto [first, last] =
            segment_of(rows_of_part(x, spans, s / segments), s % segments, segments);
        A* __restrict mean = y.as<A>() + s * width;
        if (last - first <= addends) {
          add_up(x.as<T>() + first * width, last - first, width, mean);
        } else {
          for (std::int64_t c = 0; c < width; ++c) total[c] = 0;
          for (std::int64_t r = first; r < last; r += addends) {
            add_up(x.as<T>() + r * width, std::min(last - r, addends), width, mean);
            for (std::int64_t c = 0; c < width; ++c) total[c] += static_cast<double>(mean[c]);
          }
          for (std::int64_t c = 0; c < width; ++c) mean[c] = static_cast<A>(total[c]);
        }
        const A scale = last > first ? A(1) / static_cast<A>(last - first) : A(0);
        for (std::int64_t c = 0; c < width; ++c) mean[c] *= scale;
      }
    });
  });
}

void segment_means_grad(CView dy, Spans spans, View dx) {
  const std::int64_t width = dx.dim(-1), segments = dy.shape[1];
  visit_float(dx.dtype, [&]<class T>(TypeTag<T>) {
    using A = accumulate_t<T>;
    parallel_each(dy.shape[0] * segments, 1, [&](std::int64_t s) {
      const auto [first, last] =
          segment_of(rows_of_part(dx, spans, s / segments), s % segments, segments);
      const A* __restrict grad = dy.as<A>() + s * width;
      for (std::int64_t r = first; r < last; ++r) {
        T* __restrict row = dx.as<T>() + r * width;
        const A scale = A(1) / static_cast<A>(last - first);
        for (std::int64_t c = 0; c < width; ++c)
          row[c] = convert<T>(load(row[c]) + scale * grad[c]);
      }
    });
  });
}

}  // namespace nystrom::kernels::NYSTROM_LEVEL
