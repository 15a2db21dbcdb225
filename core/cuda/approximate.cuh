// The special function unit's approximations, for results that are rounded to 16 bits. (The tests'
// emulator has its own version of this file.)
#pragma once

#include "core/cuda/device.cuh"

namespace nystrom::cuda {

/// 2ˣ with a relative error of at most 2⁻²². Results below 2⁻¹²⁶ are 0.
NYSTROM_DEVICE float approximate_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x, exact but for one bit. Results below 2⁻¹²⁶ are 0.
NYSTROM_DEVICE float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace nystrom::cuda
