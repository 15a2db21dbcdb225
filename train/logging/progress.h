// Progress for people: a bar that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/logging/log.h"

namespace nystrom {

class Progress {
 public:
  /// `unit` names what is counted ("step"); `done` of `total` are done at the start.
  Progress(std::string unit, std::int64_t done, std::int64_t total, Log& log);

  /// `done` of the total are done; `details` stands behind. On a terminal redrawn at most ten times
  /// a second; a line of its own elsewhere, and in the log's file, when `line`.
  void update(std::int64_t done, const std::string& details, bool line);

 private:
  using Clock = std::chrono::steady_clock;
  std::string bar(std::int64_t done, const std::string& details) const;

  std::string unit_;
  std::int64_t first_, total_;
  Log& log_;
  Clock::time_point start_, last_;
};

/// "1:02:03" or "2:03".
std::string format_duration(double seconds);

}  // namespace nystrom
