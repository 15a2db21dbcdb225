// Transport over NCCL: the module libnystrom_nccl.so of builds with CUDA. NCCL carries values on
// GPUs, on a stream of its own that runs before others; all operations that are asked for are
// queued there. MPI carries values in CPU memory; without MPI they go through the GPUs too.
//
// The communicator does not block: calls return while NCCL still works on them, so that a process
// can be told to end at any time. On failure the communicator is aborted, or kernels would go on
// waiting for the other processes.
//
// It has run on the tests' library (tests/nccl_emulation), and with two processes on one H100.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/fields.h"
#include "train/distributed/transport.h"

namespace nystrom {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(std::string("NCCL: ") + what + ": " + cudaGetErrorString(status));
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::u8: return ncclUint8;
    default: throw Error(std::string("no communication of ") + name_of(dtype));
  }
}

/// Memory that a small exchange passes through: pinned in the CPU's, and on the GPU. It grows.
class Staging {
 public:
  ~Staging() { release(); }
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    release();
    bytes_ = std::max(2 * bytes, std::size_t{1} << 16);
    check(cudaMallocHost(&host_, bytes_), "pinned memory");
    check(cudaMalloc(&device_, bytes_), "memory for small values");
  }
  void* host() const { return host_; }
  void* device() const { return device_; }

 private:
  void release() {
    cudaFreeHost(host_);
    cudaFree(device_);
    host_ = device_ = nullptr;
  }
  std::size_t bytes_ = 0;
  void *host_ = nullptr, *device_ = nullptr;
};

class NcclTransport : public Transport {
 public:
  explicit NcclTransport(const NcclPlace& place) : host_(place.host) {
    rank_ = place.rank;
    size_ = place.size;
    local_rank_ = place.local_rank;
    try {
      connect(place);
    } catch (...) {
      abort();
      // Destroying MPI would wait for the other processes. The end of this process ends them.
      static_cast<void>(host_.release());
      throw;
    }
  }
  ~NcclTransport() override {
    if (communicator_) {
      ncclCommFinalize(communicator_);
      while (state() == ncclInProgress) pause();
      ncclCommDestroy(communicator_);
    }
    for (const cudaEvent_t event : free_events_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }

  void run(const Operation& operation, Buffer values) override {
    if (by_host(values)) return host_->run(operation, values);
    if (values.count == 0) return;
    aborting([&] {
      const char* const what = enum_name(operation.kind);
      const auto queue = [&](void* data) {
        require(start(operation, values, data), what);
        settle(what);
      };
      if (!values.ready) return through_gpu(values, queue);
      check(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(values.ready), 0),
            "waiting for the values");
      queue(values.data);
      record();
    });
  }

  std::size_t unfinished() override {
    while (!started_.empty()) {
      const cudaError_t status = cudaEventQuery(started_.front());
      if (status == cudaErrorNotReady) break;
      aborting([&] { check(status, "waiting"); });
      free_events_.push_back(started_.front());
      started_.pop_front();
    }
    if (!started_.empty()) {
      aborting([&] { require(state(), "communication"); });
      serve_end();
    }
    return started_.size();
  }

  void request_end(int code) override {
    if (host_) host_->request_end(code);
    end_ = code;
  }
  void serve_end() override {
    if (end_ == 0) return;
    abort();
    if (host_) host_->serve_end();
    std::_Exit(end_);  // without MPI the launcher or the time limit ends the others
  }

 private:
  void connect(const NcclPlace& place) {
    check(cudaSetDevice(place.device), "choosing the GPU");
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
          "making a stream");
    ncclUniqueId id;
    // NCCL_COMM_ID would save the exchange, but asks for an interface in rank 0's own network.
    if (rank_ == 0) require(ncclGetUniqueId(&id), "making an id");
    if (host_)
      host_->run({Operation::broadcast}, {&id, sizeof id, DType::u8});
    else
      place.share_from_first(std::as_writable_bytes(std::span(&id, 1)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    require(ncclCommInitRankConfig(&communicator_, size_, id, rank_, &config), "connecting");
    settle("connecting");
  }

  /// Throws an Error with NCCL's own words unless `status` is success, now or soon.
  void require(ncclResult_t status, const char* what) const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    const char* details = ncclGetLastError(communicator_);
    throw Error(std::string("NCCL: ") + what + ": " + ncclGetErrorString(status) +
                (details && *details ? std::string(": ") + details : ""));
  }
  /// The state of the communicator, with errors that occurred beside this thread.
  ncclResult_t state() const {
    ncclResult_t error = ncclSuccess;
    const ncclResult_t status = ncclCommGetAsyncError(communicator_, &error);
    return status == ncclSuccess ? error : status;
  }
  /// Waits until NCCL has done its part of the last call: only then is the operation on the stream.
  void settle(const char* what) {
    while (true) {
      const ncclResult_t now = state();
      require(now, what);
      if (now != ncclInProgress) return;
      serve_end();
      pause();
    }
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  /// Ends everything that this process has on its way, without the others.
  void abort() {
    if (communicator_) ncclCommAbort(communicator_);
    communicator_ = nullptr;
  }
  template <class F>
  void aborting(const F& call) {
    try {
      call();
    } catch (...) {
      abort();
      throw;
    }
  }

  /// Whether MPI carries the values. They take their turn behind those on the GPU.
  bool by_host(const Buffer& values) {
    if (!host_ || values.ready) return false;
    finish();
    return true;
  }

  /// Puts an operation onto the stream.
  ncclResult_t start(const Operation& operation, const Buffer& values, void* data) const {
    const auto count = static_cast<std::size_t>(values.count);
    const ncclDataType_t type = type_of(values.dtype);
    const int rank = operation.rank;
    switch (operation.kind) {
      case Operation::all_reduce:
        return ncclAllReduce(data, data, count, type, ncclSum, communicator_, stream_);
      case Operation::reduce:
        return ncclReduce(data, data, count, type, ncclSum, rank, communicator_, stream_);
      case Operation::broadcast:
        return ncclBroadcast(data, data, count, type, rank, communicator_, stream_);
      case Operation::send: return ncclSend(data, count, type, rank, communicator_, stream_);
      case Operation::receive: return ncclRecv(data, count, type, rank, communicator_, stream_);
      case Operation::all_gather: break;
    }
    require(ncclGroupStart(), "all_gather");  // ranges differ in size: a group of broadcasts
    const std::int64_t* const bounds = operation.bounds.data();
    for (int r = 0; r < size_; ++r) {
      char* part = static_cast<char*>(data) + bounds[r] * size_of(values.dtype);
      const auto elements = static_cast<std::size_t>(bounds[r + 1] - bounds[r]);
      if (elements > 0)
        require(ncclBroadcast(part, part, elements, type, r, communicator_, stream_), "all_gather");
    }
    return ncclGroupEnd();
  }

  /// Carries values in CPU memory: `queue` puts the operation onto the stream. Waits for the
  /// result.
  template <class Queue>
  void through_gpu(const Buffer& values, const Queue& queue) {
    const auto bytes = static_cast<std::size_t>(values.count * size_of(values.dtype));
    finish();
    staging_.reserve(bytes);
    std::memcpy(staging_.host(), values.data, bytes);
    check(
        cudaMemcpyAsync(staging_.device(), staging_.host(), bytes, cudaMemcpyHostToDevice, stream_),
        "copy to the GPU");
    queue(staging_.device());
    check(
        cudaMemcpyAsync(staging_.host(), staging_.device(), bytes, cudaMemcpyDeviceToHost, stream_),
        "copy from the GPU");
    record();
    finish();
    std::memcpy(values.data, staging_.host(), bytes);
  }

  /// Records that the last operation is started.
  void record() {
    cudaEvent_t event = nullptr;
    if (free_events_.empty()) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    } else {
      event = free_events_.back();
      free_events_.pop_back();
    }
    started_.push_back(event);
    check(cudaEventRecord(event, stream_), "recording an event");
  }

  void finish() {
    while (unfinished() > 0) pause();
  }

  std::unique_ptr<Transport> host_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  Staging staging_;
  std::deque<cudaEvent_t> started_;  // each occurs when its operation is done
  std::vector<cudaEvent_t> free_events_;
  std::atomic<int> end_{0};
};

}  // namespace
}  // namespace nystrom

extern "C" __attribute__((visibility("default"))) nystrom::Transport* nystrom_connect_nccl(
    const nystrom::NcclPlace* place) {
  return new nystrom::NcclTransport(*place);
}
