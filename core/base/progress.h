// Progress display: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/log.h"

namespace nystrom {

/// The progress of one loop.
class Progress {
 public:
  /// `unit` names the counted items ("step"). `done` of `total` items are done at the start.
  /// `work` tells the work of the first n items, for the time left; null: each takes as long.
  Progress(std::string unit, std::int64_t done, std::int64_t total, Log& log,
           std::function<double(std::int64_t)> work = {});
  /// Ends the line of a terminal: results on standard output do not begin behind it.
  ~Progress() { log_.end_line(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows that `done` items are done, with `details` behind the bar. A terminal is redrawn at most
  /// ten times a second. With `line`, other outputs and the log's file get a line.
  void update(std::int64_t done, const std::string& details, bool line);

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(std::int64_t done, const std::string& details, std::size_t width) const;

  std::string unit_;
  std::int64_t first_, total_;
  Log& log_;
  std::function<double(std::int64_t)> work_;
  Clock::time_point start_, last_;
};

/// "step 5/20 [#####...............] loss 4.1, 0.5 GB, 2:03 left" in at most `width` columns, where
/// `share` of the bar is filled. Where it is too long, the bar goes first, then the last of the
/// `details` (separated by ", "), then `count`; the time left stays.
std::string progress_line(const std::string& count, double share, std::string details,
                          const std::string& left, std::size_t width);

/// Formats seconds as "1:02:03" or "2:03".
std::string format_duration(double seconds);

}  // namespace nystrom
