// What processes can do together, over raw memory: the contract of libnystrom_mpi.so and
// libnystrom_nccl.so, which alone know MPI and NCCL. Everybody else uses
// train/distributed/communicator.h.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace nystrom {

/// Contiguous values.
struct Buffer {
  void* data;
  std::int64_t count;
  DType dtype;            ///< f64, f32 and bf16; f16 and u8 only where nothing is added
  void* ready = nullptr;  ///< null: they lie in the memory of the CPU; else on the GPU, ready
                          ///< behind this cudaEvent_t
};

/// Every call returns when its part is done and the memory may be used again. All calls,
/// construction and destruction come from one thread, in the same order in every process. A failure
/// ends the job, with the message of the library below.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// This process's number among those of its machine.
  virtual int local_rank() const = 0;

  /// values ← their sum over all processes, the same bits in each.
  virtual void all_reduce(Buffer values) = 0;
  /// The same in `root` alone; the values of others stay.
  virtual void reduce(Buffer values, int root) = 0;
  virtual void broadcast(Buffer values, int root) = 0;
  /// Process r has elements bounds[r] … bounds[r + 1] − 1 of `all`, and gets the rest.
  virtual void all_gather(Buffer all, const std::int64_t* bounds) = 0;
  virtual void send(Buffer values, int to) = 0;
  virtual void receive(Buffer values, int from) = 0;

  /// Ends all processes with `code`. From any thread: the call under way, or serve_end, does it.
  virtual void request_end(int code) = 0;
  /// Does what was requested.
  virtual void serve_end() = 0;
};

/// The one symbol of libnystrom_mpi.so: `Transport* nystrom_connect_mpi()`. It carries values in
/// the memory of the CPU.
using ConnectMpi = Transport* (*)();

/// What NCCL needs to know of a process.
struct NcclPlace {
  Transport* host;  ///< carries the values of the CPU, and is owned from here on; null: NCCL's own
                    ///< way to connect, by NCCL_COMM_ID
  int rank, size;
  int local_rank;  ///< picks the GPU
};
/// The one symbol of libnystrom_nccl.so: `Transport* nystrom_connect_nccl(const NcclPlace*)`.
using ConnectNccl = Transport* (*)(const NcclPlace*);

}  // namespace nystrom
