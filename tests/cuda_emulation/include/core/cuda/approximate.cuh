// The emulator's version of core/cuda/approximate.cuh: the largest errors that the hardware may
// have.
#pragma once

#include <cmath>

#include "core/cuda/device.cuh"

namespace nystrom::cuda {

/// 0 for what the hardware flushes to 0.
inline float flushed(float x) { return std::abs(x) < 0x1p-126f ? 0.0f : x; }

inline float approximate_exp2(float x) {
  return flushed(static_cast<float>(std::exp2(static_cast<double>(x)) * (1 + 0x1p-22)));
}

inline float approximate_reciprocal(float x) { return flushed(std::nextafter(1 / x, 0.0f)); }

}  // namespace nystrom::cuda
