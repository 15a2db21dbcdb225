// SIGINT, SIGTERM and SIGUSR1 as requests to stop at the next safe point. mpirun forwards SIGUSR1
// to its processes.
#pragma once

#include <csignal>

#include "core/base/error.h"

namespace nystrom {

/// Thrown after a requested stop, when all work is saved. The program exits with status 130, and
/// prints the message unless it is empty.
class Interrupted : public Error {
 public:
  using Error::Error;
};

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

}  // namespace nystrom
