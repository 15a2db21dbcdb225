// Loops over several equally shaped, strided views at once, in pieces that are as long as the strides allow.
#pragma once

#include "core/cpu/parallel.h"
#include "core/view.h"

namespace nystrom {
namespace {

/// N views of one shape with mergeable axes merged. The innermost axis is walked by the body, the others by run().
template <int N>
struct StridedLoop {
  int rank = 0;
  std::int64_t shape[max_rank] = {};
  std::int64_t stride[N][max_rank] = {};

  NYSTROM_INLINE explicit StridedLoop(const ViewBase* const (&views)[N]) {
    for (int axis = 0; axis < views[0]->rank; ++axis) add_axis(views, axis);
    if (rank == 0) shape[rank++] = 1;
  }

  /// Calls body(offsets of the N views, length) for pieces of the innermost axis, on all threads.
  template <class Body>
  NYSTROM_INLINE void run(const Body& body) const {
    const std::int64_t inner = shape[rank - 1];
    std::int64_t outer = 1;
    for (int i = 0; i < rank - 1; ++i) outer *= shape[i];
    if (inner == 0 || outer == 0) return;
    // A single long row is cut into pieces too, else one thread would do it all.
    const std::int64_t piece = outer == 1 ? elementwise_grain : inner;
    const std::int64_t pieces = (inner + piece - 1) / piece;
    parallel_ranges(outer * pieces, (elementwise_grain + piece - 1) / piece, [&](std::int64_t begin, std::int64_t end) {
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

 private:
  NYSTROM_INLINE void add_axis(const ViewBase* const (&views)[N], int axis) {
    const std::int64_t size = views[0]->shape[axis];
    if (size == 1) return;
    bool mergeable = rank > 0;
    for (int v = 0; v < N; ++v) mergeable = mergeable && stride[v][rank - 1] == size * views[v]->stride[axis];
    if (!mergeable) shape[rank++] = 1;
    shape[rank - 1] *= size;
    for (int v = 0; v < N; ++v) stride[v][rank - 1] = views[v]->stride[axis];
  }
};

/// `view` with axes of size 1 repeated (stride 0) and missing leading axes added, to match `shape`. The caller has checked the shapes.
NYSTROM_INLINE ViewBase broadcast_view(const ViewBase& view, const ViewBase& shape) {
  ViewBase result = shape;
  for (int i = 1; i <= shape.rank; ++i) {
    const bool repeated = i > view.rank || (view.dim(-i) == 1 && shape.dim(-i) != 1);
    result.stride[shape.rank - i] = repeated ? 0 : view.step(-i);
  }
  return result;
}

}  // namespace
}  // namespace nystrom
