// The loop of every run: steps, evaluations, checkpoints and resuming. What is learned is an Objective.
#pragma once

#include <optional>

#include "train/communicator.h"
#include "train/config.h"
#include "train/log.h"
#include "train/objective.h"

namespace nystrom {

/// How a run ended.
struct RunResult {
  std::int64_t steps = 0;              ///< done in all
  std::optional<std::int64_t> best;    ///< the step of the best evaluation
  std::optional<double> best_value{};  ///< its score …
  std::string judged_by{};             ///< … and what that is: "loss", "accuracy"
  bool interrupted = false;            ///< by SIGINT or SIGTERM: a checkpoint of the last step was saved
};

/// Refuses what can be refused before anything is written: a run directory that holds something else or a run of other settings, and a
/// folder to start from that does not fit. The model is complete. InputError.
void check_run(const RunConfig& config);
/// The part of it about the folder to start from, which a run with checkpoints does not look at again.
void check_run_start(const RunConfig& config);

/// Prepares what is trained, in all processes together; the configuration is complete when it returns (model, epochs in steps).
using MakeObjective = std::function<std::unique_ptr<Objective>(RunConfig& config)>;

/// Runs `config` in its run directory to its last step. A run that was stopped goes on from its newest whole checkpoint, to the same bits
/// as if it had not been; a fresh one starts with fresh weights, or with those of model.from. The lock of the run directory is held from
/// before `make` is called. InputError when the run directory holds a run of other settings (all changed keys are named; steps, epochs,
/// zero, timeout, logging, evaluation and checkpoint may change), and after three steps in a row whose gradient was not finite.
///
/// Several processes train one run together: the first one alone writes, but for what is sharded. All get the same result. ProcessLost when
/// one of them lets the others wait for longer than training.timeout.
RunResult train_run(RunConfig config, const MakeObjective& make, Log& log, Device device, Communicator& communicator);

}  // namespace nystrom
