// Joint traversal of strided views with equal shapes, on any device.
#pragma once

#include "core/view.h"

namespace nystrom {
namespace {

/// N views of one shape with merged axes: as few axes as the strides of all views permit, none for
/// one element. Plain data.
template <int N>
struct Strides {
  int rank = 0;
  std::int64_t shape[max_rank] = {};
  std::int64_t stride[N][max_rank] = {};

  NYSTROM_INLINE explicit Strides(const ViewBase* const (&views)[N]) {
    for (int axis = 0; axis < views[0]->rank; ++axis) add_axis(views, axis);
  }

 private:
  NYSTROM_INLINE void add_axis(const ViewBase* const (&views)[N], int axis) {
    const std::int64_t size = views[0]->shape[axis];
    if (size == 1) return;
    bool mergeable = rank > 0;
    for (int v = 0; v < N; ++v)
      mergeable = mergeable && stride[v][rank - 1] == size * views[v]->stride[axis];
    if (!mergeable) shape[rank++] = 1;
    shape[rank - 1] *= size;
    for (int v = 0; v < N; ++v) stride[v][rank - 1] = views[v]->stride[axis];
  }
};

/// `view` broadcast to `shape`: axes of size 1 get stride 0, and missing leading axes are added.
/// The caller has checked the shapes.
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
