// The loop of every run: steps, evaluations, checkpoints and resuming. What is learned is an
// Objective.
#pragma once

#include <optional>

#include "train/config/config.h"
#include "train/distributed/communicator.h"
#include "train/logging/log.h"
#include "train/loop/objective.h"

namespace nystrom {

/// How a run ended.
struct RunResult {
  std::int64_t steps = 0;              ///< done in all
  std::optional<std::int64_t> best;    ///< the step of the best evaluation
  std::optional<double> best_value{};  ///< its score …
  std::string metric_name{};           ///< … and what that is: "loss", "accuracy"
  bool interrupted = false;  ///< by SIGINT or SIGTERM: a checkpoint of the last step was saved
};

/// A run with everything that follows from its tokenizer and its data: from here on its
/// configuration does not change.
struct PreparedRun {
  RunConfig config;
  std::unique_ptr<Objective> objective;
};

/// Prepares a run, in all processes together, while its run directory is locked.
using PrepareRun = std::function<PreparedRun()>;

/// Trains in the run directory of `given` to the last step of the run that `prepare` returns. A run
/// that was stopped goes on from its newest whole checkpoint, to the same bits as if it had not
/// been; a fresh one starts with fresh weights, or with those of model.from. The lock of the run
/// directory is held from before `prepare` is called. InputError when the run directory holds a run
/// of other settings (all changed keys are named; steps, epochs, zero, timeout, on_loss_spike,
/// logging, evaluation and checkpoint may change), after three steps in a row whose gradient was
/// not finite, and at the fourth loss spike after one checkpoint.
///
/// Several processes train one run together: the first one alone writes, but for what is sharded.
/// All get the same result. ProcessLost when one of them lets the others wait for longer than
/// training.timeout.
RunResult train_run(const RunConfig& given, const PrepareRun& prepare, Log& log, Device device,
                    Communicator& communicator);

}  // namespace nystrom
