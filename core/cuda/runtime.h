// The functions of the CUDA runtime that core needs. A build without CUDA has no devices, and each
// call throws (core/cuda_absent.cpp). A process computes on one GPU. All its work goes to one
// stream, in order.
#pragma once

#include <cstdint>

namespace nystrom::cuda {

/// Whether this program contains the CUDA backend.
bool built_in();

/// Allocates device memory. Returns null when the device has too little.
void* device_allocate(int device, std::int64_t bytes);
/// Frees device memory.
void device_free(int device, void* block);
/// Copies `source`, which is pageable CPU memory, to the device. The copy is ordered after all
/// launched work. `source` may be reused at once.
void copy_to_device(int device, void* destination, const void* source, std::int64_t bytes);
/// Copies to the CPU. Waits until the copy and all work launched before it are done.
void copy_to_host(int device, void* destination, const void* source, std::int64_t bytes);
/// The number of kernels, and of calls of libraries that compute, which this process has launched.
std::int64_t launches();
/// Waits until all launched work is done. Throws the errors of kernels.
void synchronize(int device);
/// Names the work that this thread launches while the object lives, for NVIDIA's profilers.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

/// Throws an InputError that describes the machine unless GPU `device` exists and is new enough.
void require_device(int device);
/// The compute capability of an existing GPU: 90 for 9.0.
int compute_capability(int device);

}  // namespace nystrom::cuda
