// The reports of a run while it trains: a line of progress, its metrics, warnings, and samples.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/allocator.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/loop/metrics.h"
#include "train/loop/objective.h"

namespace nystrom {

/// Processor time since some moment, in seconds summed over all processors.
struct ProcessorTimes {
  double own = 0;   ///< of this process, on all its threads
  double busy = 0;  ///< of everything on this machine; 0 where the system does not tell
};
/// The times since the machine started (busy) and since the process started (own).
ProcessorTimes processor_times();

/// Notices that a run has become much slower than it was, and tells it once.
class SpeedWatch {
 public:
  /// `on_gpu`: the computation does not depend on processors.
  explicit SpeedWatch(bool on_gpu, std::function<ProcessorTimes()> times = processor_times);

  /// Adds a step of `tokens` tokens that took `seconds`. Speed is compared over windows of at least
  /// 10 steps and 2 seconds. Returns a message after the first window with less than a third of the
  /// fastest one's speed; nothing otherwise.
  std::optional<std::string> update(std::int64_t step, std::int64_t tokens, double seconds);

 private:
  std::string reason(double seconds) const;

  bool on_gpu_, told_ = false;
  std::function<ProcessorTimes()> times_;
  ProcessorTimes begin_;
  std::int64_t steps_ = 0, tokens_ = 0, fastest_step_ = 0;
  double seconds_ = 0, fastest_ = 0;  // fastest_: tokens a second
};

class AttentionMonitor;

/// The report of one run. All processes have one, and rank 0 alone writes files.
class RunLogger {
 public:
  /// A report that goes on after step `done` of `steps`: records of later steps are removed. Throws
  /// an InputError if a file cannot be opened. All references must outlive the report.
  RunLogger(const RunConfig& config, Device device, Communicator& communicator, Log& log,
            std::int64_t done, std::int64_t steps);
  ~RunLogger();
  /// Goes on after an earlier step, and removes the records of later ones.
  void roll_back(std::int64_t done);
  /// Forgets the speed of all steps so far.
  void begin_stage();

  /// Called before step number `step`, when its options are complete but for observe_attention,
  /// which this sets where it is due.
  void begin_step(std::int64_t step, StepOptions& options);
  /// Called after the step. Returns its tokens a second.
  double end_step(const StepResult& done, const StepOptions& options);
  /// Records the score of an evaluation after step `step`, and `samples` if not empty. Returns the
  /// recorded metrics.
  Metrics evaluation(std::int64_t step, const Score& score, const std::string& samples);

 private:
  void record_step(const StepResult& done, const StepOptions& options, double seconds,
                   const ArenaStatistics& memory, const Metrics& of_attention);
  void record_samples(std::int64_t step, const std::string& samples);
  void warn_of_slow_products();

  const RunConfig& config_;
  Device device_;
  Communicator& communicator_;
  Log& log_;
  std::unique_ptr<AttentionMonitor> attention_;
  SpeedWatch speed_;
  StepMeans means_;
  std::optional<Progress> progress_;
  std::optional<MetricsLog> metrics_;  // on rank 0 only
  std::optional<RecordFile> samples_;  // after the first samples
  std::int64_t resumed_, step_, steps_;
  bool warned_of_slow_products_ = false;
  std::chrono::steady_clock::time_point begin_;  // of the step
  struct {
    double working = 0, waiting = 0;
  } communication_;  // seconds until the step
};

}  // namespace nystrom
