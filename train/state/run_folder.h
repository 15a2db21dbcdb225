// The folder of a run or of a sweep: what marks it as one, and which of its entries a run may
// remove.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/file_io.h"

namespace nystrom {

/// An exclusive lock on a run directory, held by one training process at a time. Its file `.lock`
/// also marks the folder as a run. The lock ends with the object.
class RunLock {
 public:
  /// Throws an InputError when another process holds the lock.
  explicit RunLock(const std::filesystem::path& run_dir);
  /// Throws an InputError if the folder was removed, or replaced by another one, which another
  /// process may train in.
  void require_held() const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

/// The absolute path without ".", ".." and a last slash: equal places have equal ones.
std::filesystem::path normal_place(const std::filesystem::path& path);

/// Throws an InputError if the folder holds anything but a run or a sweep, or if its checkpoints
/// are elsewhere, behind a link. A copy of a run without its mark is known by its checkpoints.
/// Writes nothing.
void check_run_place(const std::filesystem::path& run_dir);

/// Removes what killed processes left of the files that a run writes directly in its folder. Only
/// the holder of the RunLock may call it. Throws an InputError when one cannot be removed.
void remove_unfinished(const std::filesystem::path& run_dir);

/// The place of a run within its sweep, POINT/seed-S or, without `options`, seed-S, from `run_dir`
/// of summary.json. Only its last names count, so that it stays within the sweep. Throws an
/// InputError if there is no such folder in the sweep.
std::filesystem::path place_in_sweep(const std::filesystem::path& sweep, bool options,
                                     const std::filesystem::path& run_dir);

}  // namespace nystrom
