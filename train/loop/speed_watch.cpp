#include "train/loop/speed_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/check.h"

namespace nystrom {

ProcessorTimes processor_times() {
  ProcessorTimes times;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  for (const timeval& part : {usage.ru_utime, usage.ru_stime})
    times.own += static_cast<double>(part.tv_sec) + 1e-6 * static_cast<double>(part.tv_usec);
  // The first line of /proc/stat: cpu user nice system idle iowait irq softirq steal, in ticks.
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks = 0;
  file >> name;
  for (int field = 0; field < 8 && file >> ticks; ++field)
    if (field != 3 && field != 4) times.busy += ticks;
  times.busy /= static_cast<double>(::sysconf(_SC_CLK_TCK));
  return times;
}

SpeedWatch::SpeedWatch(bool on_gpu, std::function<ProcessorTimes()> times)
    : on_gpu_(on_gpu), times_(std::move(times)), begin_(times_()) {}

std::string SpeedWatch::reason(double seconds) const {
  if (on_gpu_) return "does another program use the GPU?";
  const ProcessorTimes now = times_();
  const double others = (now.busy - begin_.busy - (now.own - begin_.own)) / seconds;
  if (others > 0.25) {
    return fmt::format(
        "other programs use {:.1f} of {} processors; end them, or start this run with fewer "
        "--threads",
        others, std::thread::hardware_concurrency());
  }
  return "no other program is busy: the processor is hot, or limited by its container or host";
}

std::optional<std::string> SpeedWatch::update(std::int64_t step, std::int64_t tokens,
                                              double seconds) {
  constexpr std::int64_t window_steps = 10;
  constexpr double window_seconds = 2, collapse = 1.0 / 3;
  ++steps_;
  tokens_ += tokens;
  seconds_ += seconds;
  if (told_ || steps_ < window_steps || seconds_ < window_seconds) return std::nullopt;
  const double speed = static_cast<double>(tokens_) / seconds_;
  std::optional<std::string> message;
  if (speed < collapse * fastest_) {
    told_ = true;
    message = fmt::format("step {}: {:.0f} tokens/s, {:.0f} at step {}; {}", step, speed, fastest_,
                          fastest_step_, reason(seconds_));
  }
  if (speed > fastest_) {
    fastest_ = speed;
    fastest_step_ = step;
  }
  begin_ = times_();
  steps_ = tokens_ = 0;
  seconds_ = 0;
  return message;
}

}  // namespace nystrom
