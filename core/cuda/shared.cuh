// Dynamic shared memory, whose size is set at launch. (The tests' emulator has its own version of
// this file.)
#pragma once

#include <cuda_runtime.h>

namespace nystrom::cuda {

/// The block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char nystrom_dynamic_shared[];
  return reinterpret_cast<T*>(nystrom_dynamic_shared);
}

}  // namespace nystrom::cuda
