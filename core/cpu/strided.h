// Joint loops over several strided views with equal shapes, in pieces as long as the strides
// permit.
#pragma once

#include "core/cpu/parallel.h"
#include "core/strides.h"

namespace nystrom {
namespace {

/// The body iterates over the innermost axis, run() over the others.
template <int N>
struct StridedLoop : Strides<N> {
  using Strides<N>::rank, Strides<N>::shape, Strides<N>::stride;

  NYSTROM_INLINE explicit StridedLoop(const ViewBase* const (&views)[N]) : Strides<N>(views) {
    if (rank == 0) shape[rank++] = 1;
  }

  /// Calls body(offsets of the N views, length) for pieces of the innermost axis, on all threads.
  template <class Body>
  NYSTROM_INLINE void run(const Body& body) const {
    const std::int64_t inner = shape[rank - 1];
    std::int64_t outer = 1;
    for (int i = 0; i < rank - 1; ++i) outer *= shape[i];
    if (inner == 0 || outer == 0) return;
    // A single long row is divided too, so that all threads have work.
    const std::int64_t piece = outer == 1 ? elementwise_grain : inner;
    const std::int64_t pieces = (inner + piece - 1) / piece;
    parallel_ranges(outer * pieces, (elementwise_grain + piece - 1) / piece,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t start = i % pieces * piece;
                        std::int64_t offset[N];
                        for (int v = 0; v < N; ++v) offset[v] = start * stride[v][rank - 1];
                        std::int64_t rest = i / pieces;
                        for (int axis = rank - 2; axis >= 0; --axis) {
                          const std::int64_t index = rest % shape[axis];
                          rest /= shape[axis];
                          for (int v = 0; v < N; ++v) offset[v] += index * stride[v][axis];
                        }
                        body(offset, start + piece < inner ? piece : inner - start);
                      }
                    });
  }
};

}  // namespace
}  // namespace nystrom
