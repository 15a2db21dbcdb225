// The folder of a run or of a sweep: what marks it as one, which of its entries a run may remove,
// and the settings of the run that it already holds. A resumed run must have the same, save those
// that require_same_settings lets change.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file_io.h"
#include "train/config/config.h"

namespace nystrom {

/// An exclusive lock on a run directory, held by one training process at a time. Its file `.lock`
/// also marks the folder as a run. The lock ends with the object; a folder that it made goes with
/// it if it holds nothing but the lock and a log: its run was refused.
class RunLock {
 public:
  /// Makes the folder where there is none, and removes what killed processes left of the files that
  /// a run writes directly in it. Throws an InputError when another process holds the lock.
  explicit RunLock(const std::filesystem::path& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  /// Throws an InputError if the folder was removed, or replaced by another one, which another
  /// process may train in.
  void require_held() const;

 private:
  std::filesystem::path path_;
  bool made_;  // the folder
  Descriptor descriptor_;
};

/// The absolute path without links, ".", ".." and a last slash: equal places have equal ones.
std::filesystem::path normal_place(const std::filesystem::path& path);

/// Where a folder lies: as it is named, and as normal_place() has it. Both are absolute and without
/// a last slash.
std::array<std::filesystem::path, 2> places_of(const std::filesystem::path& folder);

/// Throws an InputError if the folder holds anything but a run or a sweep, if a file is in its
/// place or on the way to it, or if its checkpoints are elsewhere, behind a link. A copy of a run
/// without its mark is known by its checkpoints. The folder may hold the run's cache, which other
/// commands make before it. Writes nothing.
void check_run_place(const std::filesystem::path& run_dir, const std::filesystem::path& cache = {});

/// Throws an InputError if this process may not write in the folder, or not make it, or if another
/// process trains in it now. Writes nothing.
void require_startable(const std::filesystem::path& run_dir);

/// The place of a run within its sweep, POINT/seed-S or, without `options`, seed-S, from `run_dir`
/// of summary.json. Only its last names count, so that it stays within the sweep. Throws an
/// InputError if there is no such folder in the sweep.
std::filesystem::path place_in_sweep(const std::filesystem::path& sweep, bool options,
                                     const std::filesystem::path& run_dir);

/// The contents of a run directory before a start.
struct SavedRun {
  std::optional<std::string> text;  ///< of config.yaml
  std::string written;              ///< its options, as to_yaml writes them; empty if damaged
  /// Of the newest checkpoint; without checkpoints those in config.yaml, or nothing if that is
  /// damaged.
  std::optional<RunConfig> options;
  bool has_checkpoints = false;
};

/// Calls check_run_place and reads the options. Throws an InputError if it is damaged and the run
/// has checkpoints.
SavedRun read_saved_run(const std::filesystem::path& run_dir,
                        const std::filesystem::path& cache = {});

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
