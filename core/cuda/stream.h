// The stream of all GPU work, and working memory for it. Host functions of kernels use them.
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
/// Counts a launch of a kernel, or a call of a library that computes: see launches().
void count_launch();
/// The bytes of shared memory that a block may request at launch.
std::size_t shared_memory_of_a_block();
/// Lets `kernel` run in blocks of `threads` threads with `shared` bytes of dynamic shared memory.
/// Throws an Error that names both limits unless its registers and launch bounds allow so many
/// threads, and the GPU has the memory beside the kernel's static one.
void prepare_launch(const void* kernel, unsigned threads, std::size_t shared);
/// Whether the tensor cores of GPU `device` accept operands of this type. f16 needs compute
/// capability 7.5; bf16 and (as TF32) f32 need 8.0.
bool tensor_cores_take(DType dtype, int device);
/// Throws an Error "what of KERNEL: message of the driver" unless `status` is success.
void check(cudaError_t status, const char* what);

/// Working memory on the device of `like`. It may be released while kernels that use it are still
/// queued, because its next user is queued behind them.
template <class T>
class Workspace {
 public:
  /// Allocates `count` elements.
  Workspace(const ViewBase& like, std::int64_t count)
      : block_(Arena::of(like.device).allocate(count * static_cast<std::int64_t>(sizeof(T)))) {}
  /// The address on the device.
  T* get() const { return static_cast<T*>(block_.get()); }

 private:
  std::shared_ptr<void> block_;
};

}  // namespace nystrom::cuda
