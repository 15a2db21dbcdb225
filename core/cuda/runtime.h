// The functions of the CUDA runtime that core needs. A build without CUDA has no devices, and each
// call throws (core/cuda_absent.cpp). A process computes on one GPU. All its work goes to one
// stream, in order, from any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
/// Products of bf16 or f16 numbers that ran on a plain kernel, much slower than the tensor cores,
/// because cuBLASLt has no algorithm for them.
struct SlowProducts {
  std::int64_t count = 0;
  /// the first one: "bf16 [512, 70] x [70, 3]"
  std::string first;
  /// Both in a sentence.
  std::string text() const {
    return std::to_string(count) + " products of 16-bit numbers ran without the tensor cores: " +
           "cuBLASLt has no algorithm for them, the first being " + first;
  }
};
/// Those of this process so far; none without CUDA.
SlowProducts slow_products();

/// A product of this process, as cuBLASLt knows it, or products whose numbers of rows differ
/// little.
struct Product {
  std::string text;  ///< types, sizes, layout and epilogue
  /// An algorithm that cuBLASLt offers: its settings, and its seconds if time_products() was called
  /// before the first such product.
  struct Algorithm {
    std::string text;
    double seconds = 0;
  };
  std::vector<Algorithm> algorithms;  ///< the one in use first; empty: there is none
};
/// The products of this process so far, each once; none without CUDA.
std::vector<Product> products();
/// From now on times up to eight algorithms of each new product, all numbers of rows apart. The
/// choice stays cuBLASLt's, or bits would differ from run to run.
void time_products();

/// Whether cuDNN can be used, which is optional both to build and to run programs.
struct CudnnState {
  bool usable;
  std::string text;    ///< its version, or the reason why own kernels replace it
  std::string advice;  ///< a remedy, or empty
};
/// The state of cuDNN. The first call loads it.
CudnnState cudnn_state();

/// A CUDA event, for libraries that work on their own stream: it occurs after all work launched
/// before its construction. It must live until those that wait for it have been told to. Throws in
/// a program without CUDA.
class Event {
 public:
  /// Records the event on the stream of GPU `device`.
  explicit Event(int device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// The cudaEvent_t.
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

/// Names the work that this thread launches while the object lives, for errors and NVIDIA's
/// profilers. `name` must outlive the object.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  [[maybe_unused]] const char* previous_ = nullptr;
};

/// The number of GPUs that this process sees: 0 without CUDA or without a driver.
int device_count();
/// Throws an InputError that describes the machine unless GPU `device` exists and is new enough.
void require_device(int device);
/// The compute capability of an existing GPU: 90 for 9.0.
int compute_capability(int device);

}  // namespace nystrom::cuda
