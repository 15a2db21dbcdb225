// Progress for people: a bar that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nystrom {

class Progress {
 public:
  /// `unit` names what is counted ("step"). Nothing is ever printed when `quiet`.
  Progress(std::string unit, std::int64_t done, std::int64_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total are done; `details` stands behind. On a terminal at most ten times a second; elsewhere a line when `line`.
  void update(std::int64_t done, const std::string& details, bool line);
  /// A line of its own, above the bar.
  void say(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  std::string bar(std::int64_t done, const std::string& details) const;

  std::string unit_;
  std::int64_t first_, total_;
  bool quiet_, terminal_;
  bool drawn_ = false;
  Clock::time_point start_, last_;
};

/// "1:02:03" or "2:03".
std::string format_duration(double seconds);

}  // namespace nystrom
