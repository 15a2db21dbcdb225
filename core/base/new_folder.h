// A folder that appears whole or not at all.
#pragma once

#include <filesystem>

namespace nystrom {

/// The folder without links and trailing slashes. InputError when something is in it, or it is no
/// folder.
std::filesystem::path require_empty_target(const std::filesystem::path& folder);

/// A descriptor that holds the lock of a folder alone, until it is closed; −1 where that cannot be
/// had: others hold it, or there is no folder.
int lock_folder(const std::filesystem::path& folder);

/// Made under a temporary name beside its place, and locked while alive, so that what a killed
/// process left can be told from what a living one still writes. Every failure is an InputError
/// naming the folder.
class NewFolder {
 public:
  /// Makes the parents, removes leftovers of the same name, and makes the temporary folder.
  explicit NewFolder(std::filesystem::path place);
  /// Removes the temporary folder unless committed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& path() const { return temporary_; }
  /// Gives the folder its name, durably; its place must be free or an empty folder.
  void commit();

 private:
  std::filesystem::path place_, temporary_;
  int lock_ = -1;
};

}  // namespace nystrom
