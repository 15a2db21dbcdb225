// Parallel loops. Bodies must not throw, so kernels check before they start.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/threads.h"

namespace nystrom {
namespace {

/// Calls body(begin, end) on disjoint ranges of 0 … n, each at least `grain` long, on all threads.
template <class Body>
NYSTROM_INLINE void parallel_ranges(std::int64_t n, std::int64_t grain, const Body& body) {
  const std::int64_t most = (n + grain - 1) / grain;
  const std::int64_t pieces = most < num_threads() ? most : num_threads();
  if (pieces <= 1) {
    if (n > 0) body(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static, 1)
  for (std::int64_t p = 0; p < pieces; ++p) body(n * p / pieces, n * (p + 1) / pieces);
}

/// Calls body(i) for 0 … n − 1, in the ranges of parallel_ranges.
template <class Body>
NYSTROM_INLINE void parallel_each(std::int64_t n, std::int64_t grain, const Body& body) {
  parallel_ranges(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

/// The number of elements below which a second thread does not pay off.
constexpr std::int64_t elementwise_grain = 16384;
/// The same of rows with `width` elements.
NYSTROM_INLINE std::int64_t row_grain(std::int64_t width) {
  return elementwise_grain / (width + 1) + 1;
}

}  // namespace
}  // namespace nystrom
