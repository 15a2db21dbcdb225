#include "core/base/progress.h"

#include <algorithm>

#include "core/base/require.h"

namespace nystrom {

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(seconds, 0.0) + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(std::string unit, std::int64_t done, std::int64_t total, Log& log,
                   std::function<double(std::int64_t)> work)
    : unit_(std::move(unit)),
      first_(done),
      total_(total),
      log_(log),
      work_(std::move(work)),
      start_(Clock::now()) {}

std::string progress_line(const std::string& count, double share, std::string details,
                          const std::string& left, std::size_t width) {
  constexpr int bar_width = 20;
  const int filled = static_cast<int>(share * bar_width);
  const std::string bar = fmt::format(" [{:#<{}}{:.<{}}]", "", filled, "", bar_width - filled);
  for (std::string shown_bar = bar;; shown_bar.clear()) {
    const std::string separator = details.empty() ? "" : ", ";
    const std::string line = count + shown_bar + " " + details + separator + left;
    if (line.size() <= width) return line;
    if (!shown_bar.empty()) continue;
    if (details.empty()) return left;
    const std::size_t last = details.rfind(", ");
    details.resize(last == details.npos ? 0 : last);
  }
}

std::string Progress::line(std::int64_t done, const std::string& details, std::size_t width) const {
  const double share =
      total_ > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0)
                 : 1;
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    return work_ ? work_(end) - work_(begin) : static_cast<double>(end - begin);
  };
  const double left = done > first_ ? elapsed / work(first_, done) * work(done, total_) : 0;
  return progress_line(fmt::format("{} {}/{}", unit_, done, total_), share, details,
                       format_duration(left) + " left", width);
}

void Progress::update(std::int64_t done, const std::string& details, bool line) {
  const std::string whole = this->line(done, details, std::string::npos);
  if (!log_.draws()) {
    if (line) log_.say(whole);
    return;
  }
  if (line) log_.record(whole);
  const auto now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100) && done < total_) return;
  last_ = now;
  log_.draw(this->line(done, details, log_.width()));
}

}  // namespace nystrom
