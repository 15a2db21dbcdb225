// Collective operations over raw memory: the contract of libnystrom_mpi.so and libnystrom_nccl.so.
// Only these two libraries depend on MPI and NCCL. All other code uses
// train/distributed/communicator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace nystrom {

/// Contiguous values in CPU or GPU memory.
struct Buffer {
  void* data;
  std::int64_t count;
  /// f64, f32 or bf16; f16 and u8 only in operations that do not add
  DType dtype;
  /// A cudaEvent_t after which the values on the GPU are ready. Null: the values are in CPU memory.
  void* ready = nullptr;
};

/// The operations on the values of a buffer. All processes take part unless a line says otherwise.
struct Operation {
  enum class Kind : int {
    all_reduce,  ///< values ← their sum over all processes, with the same bits in each
    reduce,      ///< the same in process `rank` alone; the values of the others stay as they are
    broadcast,   ///< values ← those of process `rank`
    all_gather,  ///< completes them: process r contributes bounds[r] … bounds[r + 1] − 1
    send,        ///< to process `rank`, which receives them; no other takes part
    receive,     ///< values of the same count and type that process `rank` sends
  };
  using enum Kind;
  Kind kind;
  int rank = 0;
  std::vector<std::int64_t> bounds{};
};

/// A connection between the processes of a run. A call on CPU memory returns when this process's
/// part is done and the memory may be reused. A call on GPU memory may return earlier; unfinished()
/// tells when it is done. Operations finish in the order of their calls. One thread makes all
/// calls, construction and destruction included, in the same order in every process. MPI ends the
/// job at a failure; NCCL's failures are thrown as an Error with its message.
class Transport {
 public:
  virtual ~Transport() = default;
  /// This process's number, from 0 to size() − 1.
  int rank() const { return rank_; }
  /// The number of processes.
  int size() const { return size_; }
  /// This process's number among those of its machine, from 0.
  int local_rank() const { return local_rank_; }

  /// Does this process's part of an operation.
  virtual void run(const Operation& operation, Buffer values) = 0;
  /// The number of operations that are started and not done. Does not wait.
  virtual std::size_t unfinished() { return 0; }

  /// Requests the end of all processes with exit status `code`. Any thread may call it; the current
  /// call or serve_end carries it out.
  virtual void request_end(int code) = 0;
  /// Ends all processes if an end was requested.
  virtual void serve_end() = 0;

 protected:
  int rank_ = 0, size_ = 1, local_rank_ = 0;  // for the constructors of derived classes to set
};

/// The type of libnystrom_mpi.so's only symbol, `Transport* nystrom_connect_mpi()`. The transport
/// carries values in CPU memory.
using ConnectMpi = Transport* (*)();

/// A process as NCCL sees it.
struct NcclPlace {
  /// Carries values in CPU memory; the new transport owns it. Null: NCCL carries them too.
  Transport* host;
  int rank, size, local_rank;
  /// the GPU
  int device;
  /// Gives bytes of rank 0 to all; for processes without `host`.
  std::function<void(std::span<std::byte>)> share_from_first;
};
/// The type of libnystrom_nccl.so's only symbol, `Transport* nystrom_connect_nccl(const
/// NcclPlace*)`.
using ConnectNccl = Transport* (*)(const NcclPlace*);

}  // namespace nystrom
