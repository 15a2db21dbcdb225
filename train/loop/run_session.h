// A run that has started: its directory is locked, and the log goes into it.
#pragma once

#include <optional>

#include "core/base/log.h"
#include "train/distributed/communicator.h"
#include "train/loop/run_spec.h"
#include "train/state/run_folder.h"

namespace nystrom {

/// The run directory of one run while it trains. Collective.
class RunSession {
 public:
  /// Creates and locks the run directory. Throws an InputError if another process trains in it, if
  /// it holds anything but a run, if the processes have different options, or if a step's batch is
  /// too small for them.
  RunSession(const RunSpec& spec, Log& log, Communicator& communicator);

  /// Throws an InputError if the run directory is no longer the one that this run has locked.
  void require_own_folder() const;

  Log& log() const { return log_; }
  Communicator& communicator() const { return communicator_; }

 private:
  Log& log_;
  Communicator& communicator_;
  std::optional<RunLock> lock_;  // in rank 0
};

/// Runs f. An Error of f also goes into the log's file, which a RunSession opens.
template <class F>
auto with_recorded_errors(Log& log, const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    log.record(std::string("error: ") + error.what());
    throw;
  }
}

}  // namespace nystrom
