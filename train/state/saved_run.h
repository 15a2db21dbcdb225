// The settings of the run that a run directory already holds. A resumed run must have the same,
// save those that require_same_settings lets change.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/config/config.h"

namespace nystrom {

/// What a run directory holds before a start.
struct SavedRun {
  std::optional<std::string> text;  ///< of config.yaml
  /// Of the newest checkpoint; without checkpoints those in config.yaml, or nothing if that is
  /// damaged.
  std::optional<RunConfig> options;
  bool has_checkpoints = false;
};

/// Calls check_run_place and reads the options. Throws an InputError if it is damaged and the run
/// has checkpoints.
SavedRun read_saved_run(const std::filesystem::path& run_dir);

/// The options whose values differ, with both values: "seed (42, now 1)". Sorted.
std::vector<std::string> changed_options(const RunConfig& before, const RunConfig& after);

/// Throws an InputError if the saved run is one of pretraining and `config` is fine-tuning, or the
/// reverse.
void require_same_kind(const RunConfig& config, const SavedRun& saved);
/// Throws an InputError that names the changed keys if the saved run has checkpoints with other
/// settings. steps, epochs, zero, timeout, on_loss_spike, max_unreadable, logging, evaluation,
/// checkpoint and the names of run directory and cache may change, and the words for one warm-up.
/// Other steps or epochs give other learning rates, which follow from the number of steps.
void require_same_settings(const RunConfig& config, const SavedRun& saved);
/// Calls require_same_settings, then writes config.yaml into the run directory. A file with the
/// same options stays as it is, with what a user has noted in it. Throws an InputError if the
/// directory is no longer as `saved` says. The caller holds its lock.
void write_settings(const RunConfig& config, const SavedRun& saved);

}  // namespace nystrom
