// SIGINT, SIGTERM and SIGUSR1 as requests to stop at the next safe point. mpirun forwards SIGUSR1
// to its processes.
#pragma once

#include <csignal>
#include <string>

#include "core/base/interruption.h"

namespace nystrom {

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
  Handler interrupt_, terminate_, user_;
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
