#include "train/logging/progress.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(seconds, 0.0) + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(std::string unit, std::int64_t done, std::int64_t total, Log& log)
    : unit_(std::move(unit)), first_(done), total_(total), log_(log), start_(Clock::now()) {}

std::string Progress::bar(std::int64_t done, const std::string& details) const {
  constexpr int width = 20;
  const double share =
      total_ > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0)
                 : 1;
  const int filled = static_cast<int>(share * width);
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double left = done > first_ ? elapsed / static_cast<double>(done - first_) *
                                          static_cast<double>(total_ - done)
                                    : 0;
  return fmt::format("{} {}/{} [{:#<{}}{:.<{}}] {}, {} left", unit_, done, total_, "", filled, "",
                     width - filled, details, format_duration(left));
}

void Progress::update(std::int64_t done, const std::string& details, bool line) {
  if (!log_.draws()) {
    if (line) log_.say(bar(done, details));
    return;
  }
  if (line) log_.record(bar(done, details));
  const auto now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100) && done < total_) return;
  last_ = now;
  log_.draw(bar(done, details));
}

}  // namespace nystrom
