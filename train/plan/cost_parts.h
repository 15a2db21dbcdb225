// What the costs of kernels are made of.
#pragma once

#include "train/plan/kernel_cost.h"

namespace nystrom {

inline double count_of(const ViewBase& view) { return static_cast<double>(view.numel()); }

/// The bytes of a view, with repeated elements once; 0 if it is absent.
inline double bytes_of(const CView& view) {
  if (!view) return 0;
  double elements = 1;
  for (int axis = 0; axis < view.rank; ++axis)
    if (view.stride[axis] != 0) elements *= static_cast<double>(view.shape[axis]);
  return elements * static_cast<double>(size_of(view.dtype));
}

inline std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A kernel of one launch that reads or writes each view once, 16 bytes a thread.
inline KernelCost once(const KernelCall& call) {
  KernelCost cost;
  for (const CView& view : call.views) cost.bytes += bytes_of(view);
  cost.launches = call.views.back().numel() > 0 ? 1 : 0;
  return cost;
}

}  // namespace nystrom
