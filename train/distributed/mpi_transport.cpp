// Transport over MPI: the module libnystrom_mpi.so. Only a process that mpirun or srun started
// loads it.
//
// Calls do not block inside the library. They poll it, less and less often. So a waiting process
// leaves the cores to computing ones, and can be told to end.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "train/distributed/transport.h"

namespace nystrom {
namespace {

void add_bf16(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* x = static_cast<const bf16*>(in);
  auto* y = static_cast<bf16*>(in_out);
  for (int i = 0; i < *count; ++i) y[i] = bf16(static_cast<float>(x[i]) + static_cast<float>(y[i]));
}

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm machine;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &local_rank_);
    MPI_Comm_free(&machine);
    MPI_Op_create(&add_bf16, 1, &sum_bf16_);
  }
  ~MpiTransport() override {
    MPI_Op_free(&sum_bf16_);
    MPI_Request all_here;
    MPI_Ibarrier(MPI_COMM_WORLD, &all_here);
    finish(all_here);
    MPI_Finalize();
  }

  void run(const Operation& operation, Buffer values) override {
    if (operation.kind == Operation::all_gather) return all_gather(values, operation.bounds.data());
    const int rank = operation.rank;
    const bool here = rank == rank_;
    const MPI_Op sum = values.dtype == DType::bf16 ? sum_bf16_ : MPI_SUM;
    const MPI_Comm all = MPI_COMM_WORLD;
    for (std::int64_t begin = 0; begin < values.count; begin += largest_count) {
      void* const data = static_cast<char*>(values.data) + begin * size_of(values.dtype);
      const auto count = static_cast<int>(std::min(largest_count, values.count - begin));
      const MPI_Datatype type = type_of(values.dtype);
      MPI_Request request = MPI_REQUEST_NULL;
      switch (operation.kind) {
        case Operation::all_reduce:
          MPI_Iallreduce(MPI_IN_PLACE, data, count, type, sum, all, &request);
          break;
        case Operation::reduce:
          MPI_Ireduce(here ? MPI_IN_PLACE : data, here ? data : nullptr, count, type, sum, rank,
                      all, &request);
          break;
        case Operation::broadcast: MPI_Ibcast(data, count, type, rank, all, &request); break;
        case Operation::send: MPI_Isend(data, count, type, rank, 0, all, &request); break;
        case Operation::receive: MPI_Irecv(data, count, type, rank, 0, all, &request); break;
        case Operation::all_gather: break;
      }
      finish(request);
    }
  }

  void request_end(int code) override { end_ = code; }
  void serve_end() override {
    if (const int code = end_; code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  }

 private:
  static constexpr std::int64_t largest_count = std::int64_t{1} << 30;  // MPI counts in int

  static MPI_Datatype type_of(DType dtype) {
    switch (dtype) {
      case DType::f64: return MPI_DOUBLE;
      case DType::f32: return MPI_FLOAT;
      case DType::bf16: return MPI_UINT16_T;
      case DType::u8: return MPI_BYTE;
      default: throw Error(std::string("no communication of ") + name_of(dtype));
    }
  }

  void all_gather(Buffer all, const std::int64_t* bounds) {
    if (all.count > largest_count) {  // offsets are int in MPI too
      for (int r = 0; r < size_; ++r) {
        char* part = static_cast<char*>(all.data) + bounds[r] * size_of(all.dtype);
        run({Operation::broadcast, r}, {part, bounds[r + 1] - bounds[r], all.dtype});
      }
      return;
    }
    std::vector<int> counts, places;
    for (int r = 0; r < size_; ++r) {
      counts.push_back(static_cast<int>(bounds[r + 1] - bounds[r]));
      places.push_back(static_cast<int>(bounds[r]));
    }
    MPI_Request request;
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data, counts.data(), places.data(),
                    type_of(all.dtype), MPI_COMM_WORLD, &request);
    finish(request);
  }

  void finish(MPI_Request request) {
    constexpr int eager_polls = 200;
    for (int polls = 0;; ++polls) {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done) return;
      serve_end();
      if (polls < eager_polls)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  MPI_Op sum_bf16_ = MPI_OP_NULL;
  std::atomic<int> end_{0};
};

}  // namespace
}  // namespace nystrom

extern "C" __attribute__((visibility("default"))) nystrom::Transport* nystrom_connect_mpi() {
  return new nystrom::MpiTransport;
}
