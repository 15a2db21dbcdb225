// SIGINT, SIGTERM and SIGUSR1 as a request to stop at the next good place. The last is what mpirun
// passes on to its processes.
#pragma once

#include <csignal>

#include "core/base/error.h"

namespace nystrom {

/// The user asked to stop, and what was done is saved: the program exits with 130. Without a
/// message nothing is printed.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// While alive the signals only set a flag. One object at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether one has come.
  bool requested() const;

 private:
  using Handler = void (*)(int);
  Handler interrupt_, terminate_, user_;
};

}  // namespace nystrom
