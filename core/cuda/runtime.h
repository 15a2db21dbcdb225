// The few calls that core needs of the CUDA runtime. A build without CUDA has no devices: each call throws (core/cuda_absent.cpp).
#pragma once

#include <cstdint>

namespace nystrom::cuda {

/// Device memory; null when the device has too little.
void* device_allocate(int device, std::int64_t bytes);
void device_free(int device, void* block);
/// Waits until the copy is done.
void copy_to_device(int device, void* destination, const void* source, std::int64_t bytes);
void copy_to_host(int device, void* destination, const void* source, std::int64_t bytes);

}  // namespace nystrom::cuda
