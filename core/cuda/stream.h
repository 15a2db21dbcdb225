// The stream that everything goes to, and memory for work queued on it: what host functions of
// kernels share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/allocator.h"
#include "core/view.h"

namespace nystrom::cuda {

/// The stream of this process's GPU.
cudaStream_t stream();
/// Bytes of shared memory that a block may ask for at a launch.
std::size_t shared_memory_of_a_block();
/// Whether the tensor cores of GPU `device` take operands of this type: f16 from compute
/// capability 7.5 on, bf16 and (as TF32) f32 from 8.0.
bool tensor_cores_take(DType dtype, int device);
/// Throws Error: "what: the driver's words" unless `status` is success.
void check(cudaError_t status, const char* what);

/// Working memory on the device of `like`. It may be given back while kernels that use it are still
/// queued: whoever gets it next is queued behind them.
template <class T>
class Workspace {
 public:
  Workspace(const ViewBase& like, std::int64_t count)
      : block_(Arena::of(like.device).allocate(count * static_cast<std::int64_t>(sizeof(T)))) {}
  T* get() const { return static_cast<T*>(block_.get()); }

 private:
  std::shared_ptr<void> block_;
};

}  // namespace nystrom::cuda
