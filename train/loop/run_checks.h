// Checks of a run's configuration before the run begins.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// Throws an InputError if the run cannot start, before anything is written. The run directory must
/// not hold other files or a run with other settings. The folder to start from must fit the model.
/// The model's configuration must be complete.
void check_run(const RunConfig& config);
/// Checks the folder to start from only. Runs with checkpoints skip this check, because they do not
/// read that folder again.
void check_run_start(const RunConfig& config);

/// Returns a line for each file that the patterns of training and validation both match. Missing
/// files are ignored.
std::vector<std::string> shared_file_warnings(const RunConfig& config);

/// Throws an InputError unless all processes have the same configuration.
void require_same_config(const RunConfig& config, Communicator& communicator);
/// Throws an InputError unless a step's batch is large enough for `processes` processes. With
/// `task`, batches are sorted by length and divided into whole micro-batches.
void require_work_for_all(const TrainingConfig& training, bool task, int processes);

}  // namespace nystrom
