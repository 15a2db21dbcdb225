// The emulator's version of core/cuda/shared.cuh, found first in the include path.
#pragma once

#include <cuda_runtime.h>

namespace nystrom::cuda {

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::dynamic_shared_memory());
}

}  // namespace nystrom::cuda
