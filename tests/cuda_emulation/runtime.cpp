// Functions of CUDA's runtime. Streams are as late as they may be: an operation runs when somebody
// waits for it, or asks for it. What reads or overwrites memory without waiting therefore finds old
// bytes, or changes those of a copy that has not run yet.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/emulation.h"

struct EmulatedStream {
  int device = 0;
  std::deque<std::function<bool()>> queue;
  std::uint64_t queued = 0, executed = 0;
};

/// Occurs when `stream` has executed `position` operations.
struct EmulatedEvent {
  EmulatedStream* stream = nullptr;
  std::uint64_t position = 0;
};

namespace nystrom::emulation {
namespace {

// One GPU computes for all threads of the program; an operation may use the runtime itself.
std::recursive_mutex mutex;
std::map<EmulatedStream*, std::shared_ptr<EmulatedStream>> streams;
std::map<const unsigned char*, std::size_t> allocations;  // in the GPU's memory
Missing missing = Missing::nothing;
std::atomic<std::int64_t> created{0};
bool broken = false;
thread_local int device_of_thread = 0;

using Lock = std::lock_guard<std::recursive_mutex>;

/// Executes operations up to `position`. Returns false if one of them is not ready.
bool advance(EmulatedStream& stream, std::uint64_t position) {
  const Lock lock(mutex);
  while (stream.executed < position) {
    try {
      if (!stream.queue.front()()) return false;
    } catch (...) {
      stream.queue.pop_front();
      ++stream.executed;
      throw;
    }
    stream.queue.pop_front();
    ++stream.executed;
  }
  return true;
}

void finish(EmulatedStream& stream, std::uint64_t position) {
  while (!advance(stream, position)) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

std::uint64_t end_of(const EmulatedStream& stream) {
  const Lock lock(mutex);
  return stream.queued;
}

/// Runs what all streams hold, or those of one device.
void finish_streams(std::optional<int> device) {
  std::vector<std::shared_ptr<EmulatedStream>> all;
  {
    const Lock lock(mutex);
    for (const auto& [address, stream] : streams)
      if (!device || stream->device == *device) all.push_back(stream);
  }
  // Without the lock: an operation may wait for another thread.
  for (const auto& stream : all) finish(*stream, end_of(*stream));
}

cudaError_t allocate(void** block, std::size_t bytes) {
  ++created;
  // The exact number of bytes, so that the address sanitizer detects reads beyond them.
  if (posix_memalign(block, 256, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*block, 0xff, bytes);
  return cudaSuccess;
}

}  // namespace

void set_missing(Missing waits) { missing = waits; }
std::int64_t creations() { return created; }
void break_device() { broken = true; }

void enqueue(EmulatedStream* stream, std::function<bool()> operation) {
  const Lock lock(mutex);
  if (!streams.contains(stream)) throw std::logic_error("emulation: work on no stream");
  stream->queue.push_back(std::move(operation));
  ++stream->queued;
}

void finish_all() { finish_streams({}); }

bool is_device_memory(const void* begin, std::size_t bytes) {
  const Lock lock(mutex);
  const auto* first = static_cast<const unsigned char*>(begin);
  auto found = allocations.upper_bound(first);
  if (found == allocations.begin()) return false;
  --found;
  return first + bytes <= found->first + found->second;
}

}  // namespace nystrom::emulation

using namespace nystrom::emulation;

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "out of memory";
  }
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  const char* wanted = std::getenv("NYSTROM_EMULATED_GPUS");
  *count = wanted ? std::atoi(wanted) : 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", compute_capability() / 10, compute_capability() % 10};
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return cudaErrorInvalidValue;
  device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = shared_memory_of_a_block(); break;
    case cudaDevAttrComputeCapabilityMajor: *value = compute_capability() / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = compute_capability() % 10; break;
  }
  return cudaSuccess;
}

// ---- Streams and events -------------------------------------------------------------------------

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  if (priority > 0 || priority < -5) return cudaErrorInvalidValue;
  ++created;
  const Lock lock(mutex);
  const auto made = std::make_shared<EmulatedStream>();
  made->device = device_of_thread;
  *stream = made.get();
  streams[*stream] = made;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (broken) return cudaErrorIllegalAddress;
  finish(*stream, end_of(*stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!event->stream || missing == Missing::stream_waits) return cudaSuccess;
  enqueue(stream, [awaited = *event] { return advance(*awaited.stream, awaited.position); });
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(mutex);
  streams.erase(stream);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  ++created;
  *event = new EmulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  *event = {stream, end_of(*stream)};
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream && missing != Missing::program_waits) finish(*event->stream, event->position);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event->stream || missing == Missing::program_waits) return cudaSuccess;
  return advance(*event->stream, event->position) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

// ---- Memory -------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  const cudaError_t status = allocate(block, bytes);
  const Lock lock(mutex);
  if (status == cudaSuccess) allocations[static_cast<unsigned char*>(*block)] = bytes;
  return status;
}
cudaError_t cudaFree(void* block) {
  if (!block) return cudaSuccess;
  finish_streams(device_of_thread);
  const Lock lock(mutex);
  if (allocations.erase(static_cast<unsigned char*>(block)) == 0) return cudaErrorInvalidValue;
  std::free(block);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, std::size_t bytes) { return allocate(block, bytes); }
cudaError_t cudaFreeHost(void* block) {
  if (!block) return cudaSuccess;
  finish_streams(device_of_thread);
  std::free(block);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  const bool down = kind == cudaMemcpyDeviceToHost;
  if (is_device_memory(target, bytes) == down || is_device_memory(source, bytes) != down)
    return cudaErrorInvalidValue;
  enqueue(stream, [=] {
    std::memcpy(target, source, bytes);
    return true;
  });
  return cudaSuccess;
}

// ---- Kernels ------------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const Lock lock(mutex);
  KernelResources& needs = resources_of(kernel);
  const auto dynamic = static_cast<std::size_t>(value);
  if (dynamic + needs.static_shared > static_cast<std::size_t>(shared_memory_of_a_block()))
    return cudaErrorInvalidValue;
  needs.allowed_dynamic = dynamic;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const Lock lock(mutex);
  const KernelResources& needs = resources_of(kernel);
  *attributes = {needs.static_shared, needs.launch_bounds};
  return cudaSuccess;
}

cudaError_t enqueue_launch(cudaStream_t stream, Launch launch) {
  const auto& [kernel, grid, block, shared, thread] = launch;
  const Lock lock(mutex);
  if (block.x * block.y * block.z > 1024 || block.z > 64) return cudaErrorInvalidConfiguration;
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  // A GPU counts static memory too, which the emulator learns when the kernel runs.
  if (shared > std::max(default_shared_memory, resources_of(kernel).allowed_dynamic) ||
      shared > static_cast<std::size_t>(shared_memory_of_a_block()))
    return cudaErrorInvalidValue;
  enqueue(stream, [launch = std::move(launch)] {
    run_grid(launch);
    return true;
  });
  return cudaSuccess;
}
