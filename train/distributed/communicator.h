// Collective operations of the processes of one run: sums, broadcasts, gathers, and the detection
// of a process that is gone.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tensor.h"

namespace nystrom {

class Transport;
struct Operation;

/// Thrown when another process does not answer. The message names that process and its machine.
class ProcessLost : public Error {
 public:
  using Error::Error;
};

/// One process of a run. Every call is collective unless its comment says otherwise: all processes
/// make the same calls in the same order. In a process that no launcher started, calls do nothing
/// and cost nothing.
///
/// The communicator has a thread of its own, which does the work while the caller computes. Tensors
/// are contiguous. Tensors on a GPU need processes connected by NCCL.
class Communicator {
 public:
  /// A run of one process.
  Communicator();
  /// Calls `connect`, and everything else of the transport, on the communicator's thread.
  /// Exceptions of `connect` pass through.
  explicit Communicator(std::function<std::unique_ptr<Transport>()> connect);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// This process's number, from 0 to size() − 1.
  int rank() const { return rank_; }
  /// The number of processes of the run.
  int size() const { return size_; }
  /// Whether this is rank 0, which writes the files of a run.
  bool is_first() const { return rank_ == 0; }
  /// Whether the communicator has a transport. A single process has one too if a launcher started
  /// it.
  bool is_connected() const { return worker_ != nullptr; }
  /// This process's number among those of its machine, from 0.
  int local_rank() const { return local_rank_; }
  /// The name of a rank in messages: "rank 3 on node7".
  std::string name_of(int rank) const;

  // The next functions return at once; wait() returns when all of them are done. Until then the
  // caller must not touch their tensors.
  /// values ← their sum over all processes, in f64, f32 or bf16. Every process gets the same bits.
  void all_reduce(const Tensor& values);
  /// values ← their sum over all processes, in process `root` alone. The values of the other
  /// processes are undefined afterwards.
  void reduce(const Tensor& values, int root);
  /// values ← those of process `root`.
  void broadcast(const Tensor& values, int root);
  /// Completes the vector `all` in every process. Process r contributes elements bounds[r] …
  /// bounds[r + 1] − 1; `bounds` has size() + 1 elements.
  void all_gather(const Tensor& all, std::vector<std::int64_t> bounds);
  /// Sends a tensor to one process, which calls receive. The other processes take no part.
  void send(const Tensor& values, int to);
  /// Receives a tensor of the same shape and type that process `from` sends.
  void receive(const Tensor& values, int from);
  /// Waits until all started operations are done. Throws ProcessLost when one of them takes longer
  /// than the time limit.
  void wait();

  // The next functions return when they are done.
  /// The element-wise sums over all processes, with the same bits in each.
  std::vector<double> sum(std::vector<double> values);
  /// The sum of one number over all processes.
  double sum(double value) { return sum(std::vector<double>{value})[0]; }
  /// The texts of all processes, by rank.
  std::vector<std::string> gather(const std::string& text);
  /// Shares work of `parts` parts. Process r computes the numbers of parts r, r + size(), …, and
  /// all processes use those of every part in the order of the parts: what they make of them has
  /// the same bits in each, and for any size(). The numbers of size() parts are in memory at once.
  void share(std::int64_t parts,
             const std::function<std::vector<double>(std::int64_t part)>& compute,
             const std::function<void(std::int64_t part, std::span<const double> numbers)>& use);
  /// The text of rank 0.
  std::string from_first(const std::string& text);
  /// Two ranks that hold different values. `majority` is the first rank that holds the most
  /// frequent value, and `rank` the first one that holds another. If several values are equally
  /// frequent, as with two processes, the one at the lowest rank counts as the most frequent.
  struct DivergentRank {
    int rank, majority;
  };
  /// Compares `value` over all processes. Returns nothing if all values are equal.
  std::optional<DivergentRank> find_divergent_rank(std::uint64_t value);
  /// Compares texts by their hashes.
  std::optional<DivergentRank> find_divergent_rank(std::string_view text);
  /// Throws an InputError unless `options`, what a command was told, is the same in all processes.
  void require_same_options(const std::string& options);
  /// Throws an InputError unless `identity`, a hash of the files that `option` names, is the same
  /// in all processes.
  void require_same_files(const std::string& option, const std::string& identity);
  /// Returns when all processes have called it.
  void barrier() { sum(0.0); }

  /// Ends the run, while alive, when one process keeps others waiting for more than `seconds`. The
  /// waiting processes throw ProcessLost. Each waiting process writes a file into `folder`, which
  /// all processes share, so the process without a file is known to hang.
  class TimeLimit {
   public:
    TimeLimit(Communicator& communicator, std::filesystem::path folder, double seconds);
    ~TimeLimit();
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

   private:
    Communicator& communicator_;
  };

  /// Seconds that callers have waited for operations so far.
  double waiting_seconds() const { return waiting_seconds_; }
  /// Seconds that the communicator's thread has worked so far.
  double working_seconds() const;

  /// Ends all processes of the run, this one with exit status `code`. Not collective: a process
  /// calls it when it cannot continue.
  [[noreturn]] void end_all(int code);

 private:
  struct Worker;
  void post(std::function<void(Transport&)> work, bool collective = true);
  void post(const Tensor& values, Operation operation);

  std::unique_ptr<Worker> worker_;  // null: alone
  int rank_ = 0, size_ = 1, local_rank_ = 0;
  std::vector<std::string> hosts_;
  double waiting_seconds_ = 0;
};

}  // namespace nystrom
