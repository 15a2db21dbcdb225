// What the processes of one run do together: sums, broadcasts, and noticing that one of them is
// gone.
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

/// Another process does not answer. The message names it and its machine.
class ProcessLost : public Error {
 public:
  using Error::Error;
};

/// This process among those of its run. All calls are collective unless said otherwise: every
/// process makes the same ones in the same order. In a process that no launcher started they do
/// nothing, at no cost.
///
/// A thread of its own does the work, so that it goes on while the caller computes. Tensors are
/// contiguous; on a GPU where NCCL connects the processes.
class Communicator {
 public:
  /// One process alone.
  Communicator();
  /// `connect` and everything else of the transport happen on the communicator's thread. Throws
  /// what `connect` throws.
  explicit Communicator(std::function<std::unique_ptr<Transport>()> connect);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  /// Whether there is a transport below: also for one process, where a launcher started it.
  bool is_connected() const { return worker_ != nullptr; }
  /// This process's number among those of its machine.
  int local_rank() const { return local_rank_; }
  /// "rank 3 on node7".
  std::string name_of(int rank) const;

  // These return at once; wait() ends when all that were asked for are done. Until then their
  // tensors are not to be touched.
  /// values ← their sum over all processes, the same bits in each: f64, f32, bf16.
  void all_reduce(const Tensor& values);
  /// The same in process `root` alone; the values of others are undefined afterwards.
  void reduce(const Tensor& values, int root);
  void broadcast(const Tensor& values, int root);
  /// Process r has elements bounds[r] … bounds[r + 1] − 1 of the vector `all`, and gets the rest.
  void all_gather(const Tensor& all, std::vector<std::int64_t> bounds);
  /// Between two processes; the others take no part.
  void send(const Tensor& values, int to);
  void receive(const Tensor& values, int from);
  /// ProcessLost when one of them takes longer than the time limit.
  void wait();

  // These end when done.
  /// The sums over all processes, the same bits in each.
  std::vector<double> sum(std::vector<double> values);
  double sum(double value) { return sum(std::vector<double>{value})[0]; }
  /// Everybody's text, by rank.
  std::vector<std::string> gather(const std::string& text);
  /// The text of the first process.
  std::string from_first(const std::string& text);
  /// Where not all have the same value: the first process whose value is not that of most, and the
  /// first of those. Of equally many, as in two processes, the value that comes first counts as
  /// that of most.
  struct DivergentRank {
    int rank, majority;
  };
  std::optional<DivergentRank> find_divergent_rank(std::uint64_t value);
  /// The same of texts, by their hashes.
  std::optional<DivergentRank> find_divergent_rank(std::string_view text);
  /// InputError unless `identity`, a hash of the files that `option` names, is the same in all
  /// processes.
  void require_same_files(const std::string& option, const std::string& identity);
  void barrier() { sum(0.0); }

  /// While alive, a process that lets others wait for more than `seconds` ends the run: they throw
  /// ProcessLost. Those that wait say so in files of `folder`, which all processes see, so that the
  /// one that does not is known.
  class TimeLimit {
   public:
    TimeLimit(Communicator& communicator, std::filesystem::path folder, double seconds);
    ~TimeLimit();
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

   private:
    Communicator& communicator_;
  };

  /// Seconds so far that callers waited, and that the work took, on its thread.
  double waiting_seconds() const { return waiting_seconds_; }
  double working_seconds() const;

  /// Ends all processes of the run, this one with `code`. Not collective: for a process that cannot
  /// go on.
  [[noreturn]] void end_all(int code);

 private:
  struct Worker;
  void post(std::function<void(Transport&)> work, bool collective = true);
  void wait(bool limited);
  void barrier_without_limit();

  std::unique_ptr<Worker> worker_;  // null: alone
  int rank_ = 0, size_ = 1, local_rank_ = 0;
  std::vector<std::string> hosts_;
  double waiting_seconds_ = 0;
};

}  // namespace nystrom
