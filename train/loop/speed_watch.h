// A watch over a run's speed: another program that takes the processors slows a run many times.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

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

}  // namespace nystrom
