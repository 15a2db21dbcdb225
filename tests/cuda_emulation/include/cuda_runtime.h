// Replaces CUDA's header, so that the kernels of core/cuda/ compile as C++ and run on the CPU
// (tests/cuda_emulation/README.md). It contains only the names that core/cuda/ uses, with CUDA's
// meanings.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __align__(bytes) alignas(bytes)
// translate.cmake replaces __shared__ and __launch_bounds__ by the functions below.

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

using cudaStream_t = struct EmulatedStream*;
using cudaEvent_t = struct EmulatedEvent*;

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// ---- For kernels --------------------------------------------------------------------------------

namespace nystrom::emulation {

inline constexpr int warp_size = 32;

/// Waits for every thread of the block, or of the warp, that has not finished.
void block_barrier();
void warp_barrier();
int lane();
/// Publishes `size` bytes (at most 64) of this lane and waits for the other lanes. The bytes of
/// lane i are at offset 64 i of the result.
const unsigned char* exchange(const void* mine, std::size_t size);

template <class T>
T value_of_lane(const T& mine, int lane) {
  static_assert(sizeof(T) <= 64 && std::is_trivially_copyable_v<T>);
  T result;
  std::memcpy(&result, exchange(&mine, sizeof(T)) + lane * 64, sizeof(T));
  return result;
}

/// One launch of a kernel. Each thread calls `thread`.
struct Launch {
  const void* kernel;
  dim3 grid, block;
  std::size_t shared;
  std::function<void()> thread;
};
/// Runs a launch to its end.
void run_grid(const Launch& launch);
void* dynamic_shared_memory();

/// A variable in static shared memory, of `bytes` bytes, and the block that used it last.
struct SharedVariable {
  std::size_t bytes;
  std::unique_ptr<unsigned char[]> memory{};
  std::uint64_t block = 0;
};
/// The memory of a variable. A block finds it poisoned when it uses it first. The sizes of all
/// variables of a block and its dynamic shared memory must not exceed the limit.
void* shared_memory_of(SharedVariable& variable);
/// The variable of type T that a declaration stands for. `Declaration` differs between declarations
/// and between instances of a template.
template <class T, class Declaration>
T& shared_variable(Declaration) {
  static SharedVariable variable{sizeof(T)};
  return *static_cast<T*>(shared_memory_of(variable));
}
/// Throws unless the block has at most `threads` threads.
void require_launch_bounds(int threads, int blocks = 0);

/// Puts an operation at the end of a stream. It is called again and again, whenever the stream is
/// waited for or asked, until it returns true.
void enqueue(cudaStream_t stream, std::function<bool()> operation);
/// Whether the bytes lie within one allocation of the GPU's memory.
bool is_device_memory(const void* begin, std::size_t bytes);

/// Properties of the emulated GPU: 90 for compute capability 9.0, and a size in bytes.
int compute_capability();
int shared_memory_of_a_block();

}  // namespace nystrom::emulation

inline void __syncthreads() { nystrom::emulation::block_barrier(); }
inline void __syncwarp(unsigned = 0xffffffffu) { nystrom::emulation::warp_barrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return nystrom::emulation::value_of_lane(value, nystrom::emulation::lane() ^ mask);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return nystrom::emulation::value_of_lane(value, lane & 31);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const unsigned char mine = vote;
  const unsigned char* votes = nystrom::emulation::exchange(&mine, 1);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= static_cast<unsigned>(votes[i * 64] != 0) << i;
  return result;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

// ---- For host functions -------------------------------------------------------------------------

#define CUDART_VERSION 13000
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
struct cudaDeviceProp {
  char name[256];
  int major, minor;
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  int maxThreadsPerBlock;
};

const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaMalloc(void** block, std::size_t bytes);
cudaError_t cudaFree(void* block);
cudaError_t cudaMallocHost(void** block, std::size_t bytes);
cudaError_t cudaFreeHost(void* block);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
/// What cudaLaunchKernelEx does with any kernel.
cudaError_t enqueue_launch(cudaStream_t stream, nystrom::emulation::Launch launch);

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  // The launch keeps the parameters, and every thread gets its own copies.
  return enqueue_launch(
      config->stream,
      {reinterpret_cast<const void*>(kernel), config->gridDim, config->blockDim,
       config->dynamicSmemBytes,
       [kernel, parameters = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
         std::apply(kernel, parameters);
       }});
}
