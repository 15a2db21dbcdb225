// SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP and SIGXCPU as requests to stop at the next safe point.
// mpirun forwards SIGUSR1 to its processes; batch systems warn by SIGUSR2, limits of processor time
// by SIGXCPU, and a terminal that is closed sends SIGHUP.
#pragma once

#include <csignal>
#include <iterator>
#include <string>

#include "core/base/interruption.h"

namespace nystrom {

inline constexpr int stop_signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU};

/// Handlers that only set a flag, installed while the object lives. Only one object may exist at a
/// time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether a signal has arrived.
  bool requested() const;

 private:
  using Handler = void (*)(int);
  Handler before_[std::size(stop_signals)];
};

/// While it lives, check_interruption() throws Interrupted(message) in this thread after a signal.
class EndAtSignals {
 public:
  explicit EndAtSignals(std::string message);

 private:
  StopSignals stop_;
  InterruptionCheck check_;
};

}  // namespace nystrom
