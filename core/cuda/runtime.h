// The few calls that core needs of the CUDA runtime. A build without CUDA has no devices: each call
// throws (core/cuda_absent.cpp). A process computes on one GPU; all its work goes to one stream, in
// order.
#pragma once

#include <cstdint>

namespace nystrom::cuda {

/// Whether this program has the CUDA backend.
bool built_in();

/// Device memory; null when the device has too little.
void* device_allocate(int device, std::int64_t bytes);
void device_free(int device, void* block);
/// Queued behind what was launched; `source` (ordinary memory) may be used again at once, the
/// driver has taken it.
void copy_to_device(int device, void* destination, const void* source, std::int64_t bytes);
/// Waits until the copy is done, and what was launched before it.
void copy_to_host(int device, void* destination, const void* source, std::int64_t bytes);
/// Waits until everything launched so far is done; an error that a kernel met on the way is thrown
/// here.
void synchronize(int device);
/// While alive, what this thread launches stands under `name` in the traces of NVIDIA's profilers.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

/// InputError unless GPU `device` is there and new enough, saying what was found.
void require_device(int device);
/// Of a GPU that is there: 90 for 9.0.
int compute_capability(int device);

}  // namespace nystrom::cuda
