// Transport over NCCL: the module libnystrom_nccl.so of builds with CUDA. NCCL carries values on
// GPUs, on a separate stream. MPI carries values in CPU memory; without MPI they go through the
// GPUs too.
//
// It compiles and links, but has not run on a GPU yet.
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "train/distributed/transport.h"

namespace nystrom {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(std::string("NCCL: ") + what + ": " + cudaGetErrorString(status));
}

void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess && status != ncclInProgress)
    throw Error(std::string("NCCL: ") + what + ": " + ncclGetErrorString(status));
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

class NcclTransport : public Transport {
 public:
  explicit NcclTransport(const NcclPlace& place)
      : host_(place.host), rank_(place.rank), size_(place.size), local_rank_(place.local_rank) {
    try {
      connect();
    } catch (...) {
      // Destroying MPI would wait for the other processes. The end of this process ends them.
      static_cast<void>(host_.release());
      throw;
    }
  }
  ~NcclTransport() override {
    ncclCommDestroy(communicator_);
    cudaStreamDestroy(stream_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }

  void all_reduce(Buffer values) override {
    if (by_host(values)) return host_->all_reduce(values);
    on_gpu(values, [&](void* data) {
      check(ncclAllReduce(data, data, count(values), type_of(values.dtype), ncclSum, communicator_,
                          stream_),
            "all_reduce");
    });
  }
  void reduce(Buffer values, int root) override {
    if (by_host(values)) return host_->reduce(values, root);
    on_gpu(values, [&](void* data) {
      check(ncclReduce(data, data, count(values), type_of(values.dtype), ncclSum, root,
                       communicator_, stream_),
            "reduce");
    });
  }
  void broadcast(Buffer values, int root) override {
    if (by_host(values)) return host_->broadcast(values, root);
    on_gpu(values, [&](void* data) {
      check(ncclBroadcast(data, data, count(values), type_of(values.dtype), root, communicator_,
                          stream_),
            "broadcast");
    });
  }
  void all_gather(Buffer all, const std::int64_t* bounds) override {
    if (by_host(all)) return host_->all_gather(all, bounds);
    on_gpu(all, [&](void* data) {  // ranges differ in size: a group of broadcasts
      check(ncclGroupStart(), "all_gather");
      for (int r = 0; r < size_; ++r) {
        char* part = static_cast<char*>(data) + bounds[r] * size_of(all.dtype);
        const auto elements = static_cast<std::size_t>(bounds[r + 1] - bounds[r]);
        if (elements > 0)
          check(ncclBroadcast(part, part, elements, type_of(all.dtype), r, communicator_, stream_),
                "all_gather");
      }
      check(ncclGroupEnd(), "all_gather");
    });
  }
  void send(Buffer values, int to) override {
    if (by_host(values)) return host_->send(values, to);
    on_gpu(values, [&](void* data) {
      check(ncclSend(data, count(values), type_of(values.dtype), to, communicator_, stream_),
            "send");
    });
  }
  void receive(Buffer values, int from) override {
    if (by_host(values)) return host_->receive(values, from);
    on_gpu(values, [&](void* data) {
      check(ncclRecv(data, count(values), type_of(values.dtype), from, communicator_, stream_),
            "receive");
    });
  }

  void request_end(int code) override {
    if (host_) host_->request_end(code);
    end_ = code;
  }
  void serve_end() override {
    if (end_ == 0) return;
    if (host_) host_->serve_end();
    std::_Exit(end_);  // without MPI the launcher or the time limit ends the others
  }

 private:
  void connect() {
    check(cudaSetDevice(local_rank_), "choosing the GPU");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    ncclUniqueId id;
    // Without MPI every process derives the same id from NCCL_COMM_ID, the address at which rank 0
    // listens.
    if (rank_ == 0 || !host_) check(ncclGetUniqueId(&id), "making an id");
    if (host_) host_->broadcast({&id, sizeof id, DType::u8}, 0);
    check(ncclCommInitRank(&communicator_, size_, id, rank_), "connecting");
  }

  bool by_host(const Buffer& values) const { return host_ && !values.ready; }
  static std::size_t count(const Buffer& values) { return static_cast<std::size_t>(values.count); }

  /// Calls `start` to put work on the values onto the stream, and waits for it.
  template <class Start>
  void on_gpu(const Buffer& values, const Start& start) {
    if (values.count == 0) return;
    if (values.ready) {
      check(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(values.ready), 0),
            "waiting for the values");
      start(values.data);
      return finish();
    }
    const auto bytes = static_cast<std::size_t>(values.count * size_of(values.dtype));
    void* copy = nullptr;
    check(cudaMalloc(&copy, bytes), "memory for small values");
    const std::unique_ptr<void, decltype(&cudaFree)> owner(copy, &cudaFree);
    check(cudaMemcpyAsync(copy, values.data, bytes, cudaMemcpyHostToDevice, stream_),
          "copy to the GPU");
    start(copy);
    check(cudaMemcpyAsync(values.data, copy, bytes, cudaMemcpyDeviceToHost, stream_),
          "copy from the GPU");
    finish();
  }

  void finish() {
    while (true) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return;
      if (state != cudaErrorNotReady) check(state, "waiting");
      ncclResult_t error = ncclSuccess;
      check(ncclCommGetAsyncError(communicator_, &error), "asking for errors");
      check(error, "communication");
      serve_end();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  std::unique_ptr<Transport> host_;
  const int rank_, size_, local_rank_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  std::atomic<int> end_{0};
};

}  // namespace
}  // namespace nystrom

extern "C" __attribute__((visibility("default"))) nystrom::Transport* nystrom_connect_nccl(
    const nystrom::NcclPlace* place) {
  return new nystrom::NcclTransport(*place);
}
