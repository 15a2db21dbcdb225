// What a run is refused for before it begins.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// Refuses what can be refused before anything is written: a run directory that holds something
/// else or a run of other settings, and a folder to start from that does not fit. The model is
/// complete. InputError.
void check_run(const RunConfig& config);
/// The part of it about the folder to start from, which a run with checkpoints does not look at
/// again.
void check_run_start(const RunConfig& config);

/// A line for each file that the patterns of training and validation both match. Files that are
/// missing are passed over.
std::vector<std::string> shared_file_warnings(const RunConfig& config);

/// InputError unless all processes were given the same configuration.
void require_same_config(const RunConfig& config, Communicator& communicator);
/// InputError unless a step's batch is large enough for so many processes; `task`: it is cut by
/// length, in whole micro-batches.
void require_work_for_all(const TrainingConfig& training, bool task, int processes);

}  // namespace nystrom
