// Temporary files of a command.
#pragma once

#include <filesystem>

namespace nystrom {

/// A new folder below TMPDIR, or /tmp. The destructor removes it with its
/// contents.
class ScratchFolder {
 public:
  /// Throws an InputError when the folder cannot be created.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  /// The path of the folder.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace nystrom
