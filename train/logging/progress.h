// Progress display: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/logging/log.h"

namespace nystrom {

/// The progress of one loop.
class Progress {
 public:
  /// `unit` names the counted items ("step"). `done` of `total` items are done at the start.
  Progress(std::string unit, std::int64_t done, std::int64_t total, Log& log);

  /// Shows that `done` items are done, with `details` behind the bar. A terminal is redrawn at most
  /// ten times a second. With `line`, other outputs and the log's file get a line.
  void update(std::int64_t done, const std::string& details, bool line);

 private:
  using Clock = std::chrono::steady_clock;
  std::string bar(std::int64_t done, const std::string& details) const;

  std::string unit_;
  std::int64_t first_, total_;
  Log& log_;
  Clock::time_point start_, last_;
};

/// Formats seconds as "1:02:03" or "2:03".
std::string format_duration(double seconds);

}  // namespace nystrom
