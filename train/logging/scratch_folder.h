// Files that live as long as a command.
#pragma once

#include <filesystem>

namespace nystrom {

/// A folder of its own below the system's for temporary files, removed with its contents.
class ScratchFolder {
 public:
  /// InputError when it cannot be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace nystrom
