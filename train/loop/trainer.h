// The run directory of a run that has started, and the loop of every run: steps, evaluations,
// checkpoints and resuming. An Objective supplies data and loss.
#pragma once

#include <functional>
#include <optional>

#include "core/base/log.h"
#include "train/distributed/communicator.h"
#include "train/loop/metrics.h"
#include "train/loop/objective.h"
#include "train/loop/run_spec.h"
#include "train/state/run_folder.h"

namespace nystrom {

/// Throws an InputError unless a step's batch is large enough for `processes` processes. Tasks, and
/// pretraining on features, sort it by length and divide it into whole micro-batches.
void require_work_for_all(const RunConfig& config, int processes);

/// Throws an InputError if the newest intact checkpoint in the run directory belongs to another
/// tokenizer, other training or validation data, another teacher or other first weights. Its best
/// score would not be comparable. `spec` is complete.
void require_same_data(const RunSpec& spec, const RunData& data);

/// The run directory of one run while it trains. Collective.
class RunSession {
 public:
  /// Creates and locks the run directory. Throws an InputError if another process trains in it, if
  /// it holds anything but a run, if the processes have different options, or if a step's batch is
  /// too small for them. A folder that it creates is gone with it if the run writes no settings.
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

/// The outcome of a run.
struct RunResult {
  std::int64_t steps = 0;            ///< steps done, over all calls
  std::optional<std::int64_t> best;  ///< the step of the best evaluation
  /// The score of the best evaluation, and its name: "loss", "accuracy".
  std::optional<double> best_value{};
  std::string metric_name{};
  /// Whether SIGINT or SIGTERM stopped the run. A checkpoint of the last step was then saved.
  bool interrupted = false;
};

/// One step of a run, for observers.
struct StepRecord {
  std::int64_t step = 0, steps = 0;  ///< its number, from 1, and the last number of the run
  double loss = 0;                   ///< mean over the step's targets
  std::optional<double> accuracy{};  ///< share of masked tokens predicted correctly; not for tasks
  double learning_rate = 0;
  double gradient_norm = 0;      ///< before clipping
  double tokens_per_second = 0;  ///< of this step
};

/// Observes a run, where a function is set. Returning false stops the run after a checkpoint.
struct RunObserver {
  std::function<bool(const StepRecord&)> on_step{};
  /// Gets the step of an evaluation, and its metrics as metrics.jsonl has them.
  std::function<bool(std::int64_t step, const Metrics&)> on_evaluation{};
};

/// Trains until the last step of the run. `spec` is complete: it has all that follows from the
/// tokenizer and the data. An interrupted run resumes from its newest intact checkpoint, and ends
/// with the same bits as an uninterrupted one. A new run starts with fresh weights, or with those
/// of model.from.
///
/// Throws an InputError:
/// - if the run directory holds a run with other settings: see require_same_settings.
/// - after three steps in a row with a non-finite gradient.
/// - at the fourth loss spike after one checkpoint.
///
/// Several processes train one run together and get the same result. Rank 0 alone writes files,
/// except for sharded state. Throws ProcessLost when one process lets the others wait for longer
/// than training.timeout.
///
/// Rank 0 calls the `observer`. If that returns false, the run stops as a signal stops it.
RunResult train_run(const RunSession& session, const RunSpec& spec, Objective& objective,
                    Device device, const RunObserver& observer = {});

/// Throws Interrupted if the run was stopped before its end, and records that in the run's log.
void require_finished(const RunResult& result, Log& log);

}  // namespace nystrom
