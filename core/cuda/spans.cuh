// The spans of ragged and dense tensors (Spans in core/kernels.h) on the device.
#pragma once

#include "core/cuda/device.cuh"
#include "core/kernels.h"

namespace nystrom::cuda {

/// Consecutive rows: `first` is the place of the first on a tensor's first axis, where a dense
/// tensor has a place for each span.
struct Span {
  std::int64_t first;
  int rows;
};

struct DeviceSpans {
  const std::int64_t* bounds;  ///< [count, 2], or null: the spans are those of a dense tensor
  std::int64_t count, longest;
  NYSTROM_DEVICE Span operator[](std::int64_t i) const {
    if (!bounds) return {i, static_cast<int>(longest)};
    return {bounds[2 * i], static_cast<int>(bounds[2 * i + 1] - bounds[2 * i])};
  }
};

/// The spans of `like`, ragged or dense.
inline DeviceSpans device_spans(const Spans& spans, const ViewBase& like) {
  if (spans.bounds) return {spans.bounds.as<std::int64_t>(), spans.bounds.shape[0], spans.longest};
  return {nullptr, like.shape[0], like.dim(-2)};
}

}  // namespace nystrom::cuda
