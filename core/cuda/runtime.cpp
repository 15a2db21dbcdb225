#include "core/cuda/runtime.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/cuda/products/cublaslt.h"
#include "core/cuda/stream.h"

namespace nystrom::cuda {
namespace {

/// The compute capability of the oldest GPUs whose tensor cores the fused kernels support, for f16
/// only.
constexpr int oldest_capability = 75;

/// The kernel that this thread launches.
thread_local const char* current_range = nullptr;

/// The GPU of this process; −1 before it is known.
std::atomic<int> approved = -1;

/// Selects `device` for the calls of this thread.
void use(int device) { check(cudaSetDevice(device), "choosing the GPU"); }

/// Selects the process's GPU for this thread, which may have done nothing on it yet.
void use_approved() {
  thread_local int used = -1;
  if (const int device = approved; device != used) use(used = device);
}

}  // namespace

bool built_in() { return true; }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(fmt::format("{}{}{}: {}", what, current_range ? " of " : "",
                          current_range ? current_range : "", cudaGetErrorString(status)));
}

cudaStream_t stream() {
  use_approved();
  static const cudaStream_t instance = [] {
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream");
    return made;
  }();
  return instance;
}

namespace {
std::atomic<std::int64_t> launched = 0;
}  // namespace

std::int64_t launches() { return launched; }
void count_launch() { ++launched; }

std::size_t shared_memory_of_a_block() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "asking for the GPU");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the GPU's shared memory");
  return static_cast<std::size_t>(bytes);
}

void prepare_launch(const void* kernel, unsigned threads, std::size_t shared) {
  constexpr std::size_t free_of_request = 48 << 10;
  struct Limits {
    unsigned threads = 0;
    std::size_t static_shared = 0, dynamic_shared = 0;
  };
  static auto& known = *new std::unordered_map<const void*, Limits>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  use_approved();
  const auto [found, is_new] = known.try_emplace(kernel);
  Limits& limits = found->second;
  if (is_new) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's needs");
    limits.threads = static_cast<unsigned>(attributes.maxThreadsPerBlock);
    limits.static_shared = attributes.sharedSizeBytes;
    limits.dynamic_shared = free_of_request - std::min(free_of_request, limits.static_shared);
  }
  require(threads <= limits.threads, "a kernel runs in blocks of {} threads, and {} were asked for",
          limits.threads, threads);
  if (shared <= limits.dynamic_shared) return;
  require(
      limits.static_shared + shared <= shared_memory_of_a_block(),
      "a kernel needs {} bytes of shared memory ({} static and {} dynamic) in a block, and this "
      "GPU has {}",
      limits.static_shared + shared, limits.static_shared, shared, shared_memory_of_a_block());
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared)),
        "shared memory of a kernel");
  limits.dynamic_shared = shared;
}

int compute_capability(int device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "asking for the GPU's compute capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "asking for the GPU's compute capability");
  return 10 * major + minor;
}

bool tensor_cores_take(DType dtype, int device) {
  return dtype == DType::f16 || compute_capability(device) >= 80;
}

void* device_allocate(int device, std::int64_t bytes) {
  require_device(device);
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the refusal is handled; it must not surface at the next call
    return nullptr;
  }
  check(status, "allocating GPU memory");
  return block;
}

void device_free(int device, void* block) {
  use(device);
  synchronize(device);
  check(cudaFree(block), "freeing GPU memory");
}

namespace {

/// A ring of pinned memory for small copies. Sources may be reused at once. Copies wait for the GPU
/// only if it is a whole ring behind.
class Staging {
 public:
  static constexpr std::int64_t most = 1 << 20;

  /// Copies `source` to pinned memory, which stays unchanged until the stream has passed the next
  /// call of taken().
  const void* take(const void* source, std::int64_t bytes) {
    Slot& slot = slots_[next_];
    if (!slot.memory) {
      check(cudaMallocHost(&slot.memory, most), "pinned memory");
      check(cudaEventCreateWithFlags(&slot.free, cudaEventDisableTiming), "making an event");
    } else {
      check(cudaEventSynchronize(slot.free), "waiting for a copy");
    }
    std::memcpy(slot.memory, source, static_cast<std::size_t>(bytes));
    return slot.memory;
  }
  void taken() {
    check(cudaEventRecord(slots_[next_].free, stream()), "recording a copy");
    next_ = (next_ + 1) % (sizeof(slots_) / sizeof(slots_[0]));
  }

 private:
  struct Slot {
    void* memory = nullptr;
    cudaEvent_t free = nullptr;
  };
  Slot slots_[16];
  std::size_t next_ = 0;
};

}  // namespace

void copy_to_device(int device, void* destination, const void* source, std::int64_t bytes) {
  static Staging& staging = *new Staging;
  static std::mutex mutex;
  if (bytes == 0) return;
  use(device);
  const auto copy = [&](const void* from) {
    check(cudaMemcpyAsync(destination, from, static_cast<std::size_t>(bytes),
                          cudaMemcpyHostToDevice, stream()),
          "copy to the GPU");
  };
  if (bytes <= Staging::most) {
    const std::lock_guard lock(mutex);
    copy(staging.take(source, bytes));
    return staging.taken();
  }
  copy(source);
  synchronize(device);
}

void copy_to_host(int device, void* destination, const void* source, std::int64_t bytes) {
  if (bytes == 0) return;
  use(device);
  check(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes),
                        cudaMemcpyDeviceToHost, stream()),
        "copy from the GPU");
  synchronize(device);
}

void synchronize(int device) {
  use(device);
  check(cudaStreamSynchronize(stream()), "waiting for the GPU");
}

Range::Range(const char* name) : previous_(std::exchange(current_range, name)) {
  nvtxRangePushA(name);
}
Range::~Range() {
  nvtxRangePop();
  current_range = previous_;
}

namespace {

/// Events that no object uses: making one takes longer than recording it.
struct Pool {
  std::mutex mutex;
  std::vector<cudaEvent_t> events;
};

Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

cudaEvent_t take_event() {
  {
    const std::lock_guard lock(pool().mutex);
    if (!pool().events.empty()) {
      const cudaEvent_t event = pool().events.back();
      pool().events.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

}  // namespace

Event::Event(int device) {
  check(cudaSetDevice(device), "choosing the GPU");
  const cudaEvent_t event = take_event();
  handle_ = event;
  check(cudaEventRecord(event, stream()), "recording an event");
}

Event::~Event() {
  const std::lock_guard lock(pool().mutex);
  pool().events.push_back(static_cast<cudaEvent_t>(handle_));
}

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();  // there may be no driver
  return status == cudaSuccess ? count : 0;
}

void require_device(int device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (device == approved) return use(device);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  // CUDA reports an absent driver as one of an insufficient version.
  require_input(status != cudaErrorInsufficientDriver,
                "no GPU can be used: no NVIDIA driver for CUDA {}.{} or newer is installed; use "
                "--device cpu, and see: nystrom doctor",
                CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  require_input(status == cudaSuccess && count > 0,
                "no GPU can be used: {}; use --device cpu, and see: nystrom doctor",
                status == cudaSuccess ? "there is none" : cudaGetErrorString(status));
  require_input(device < count, "there is no GPU {}: this machine has {}, numbered from 0", device,
                count);
  require_input(approved < 0, "a process computes on one GPU: it uses cuda:{} already, got cuda:{}",
                approved.load(), device);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
  require_input(10 * properties.major + properties.minor >= oldest_capability,
                "GPU {} ({}) is of compute capability {}.{}; {}.{} or newer is needed", device,
                properties.name, properties.major, properties.minor, oldest_capability / 10,
                oldest_capability % 10);
  cublaslt();
  use(device);
  approved = device;
}

}  // namespace nystrom::cuda
