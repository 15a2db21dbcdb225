// Atomic creation of folders.
#pragma once

#include <filesystem>

#include "core/base/file_io.h"

namespace nystrom {

/// The path of `folder`, without links and trailing slashes. Throws an InputError when it is not
/// empty, not a folder, or the current one: a shell would stay in what NewFolder replaces.
std::filesystem::path require_empty_target(const std::filesystem::path& folder);

/// Locks a folder exclusively until the returned descriptor is closed. Returns none, and sets
/// errno, if another process holds the lock (EWOULDBLOCK), the folder does not exist or cannot be
/// locked.
Descriptor lock_folder(const std::filesystem::path& folder);
/// Whether flock fails with this errno where a file system has no locks, as some of clusters.
bool has_no_locks(int error);

/// The file that marks a folder as incomplete. Only folders with it, and empty ones, are leftovers.
inline constexpr const char* unfinished_mark = ".nystrom-unfinished";

/// A folder that is written under its temporary_name in the same parent. It is locked while the
/// object lives, and holds the file unfinished_mark. The lock distinguishes leftovers of killed
/// processes from folders in use, and the mark distinguishes them from folders of others. Where a
/// file system has no locks, leftovers stay. Every failure is an InputError that names the folder.
class NewFolder {
 public:
  /// Creates the parents, removes leftovers of the same name, and creates the temporary folder. It
  /// has the owner, the group and the permissions of an empty folder at `place`.
  explicit NewFolder(std::filesystem::path place);
  /// Removes the temporary folder unless it was committed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// The temporary folder, to write files into.
  const std::filesystem::path& path() const { return temporary_; }
  /// Renames the folder to its final name, durably. The target must not exist, or be an empty
  /// folder.
  void commit();

 private:
  bool make_temporary();
  void discard();

  std::filesystem::path place_, temporary_;
  Descriptor lock_;
};

}  // namespace nystrom
