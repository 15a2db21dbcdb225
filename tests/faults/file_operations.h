// The system calls with which this program writes files: recorded, and failing on demand. Linking
// file_operations.cpp puts its functions in the place of libc's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nystrom::testing {

/// What a call did. Paths are relative to the recorder's root.
struct FileOperation {
  enum class Kind {
    create,
    write,
    sync_file,
    make_folder,
    rename,
    exchange,
    remove,
    sync_folder,
    acknowledge
  };
  Kind kind;
  std::string path;
  std::string target = {};        ///< rename, exchange
  std::int64_t offset = 0;        ///< write
  std::string bytes = {};         ///< write
  std::int64_t acknowledged = 0;  ///< acknowledge: the number of the save
};

/// Whether the file system can exchange two names in one step (RENAME_EXCHANGE).
enum class Exchange { possible, impossible };

/// A call that goes wrong.
struct Fault {
  static constexpr int short_write = -1;
  int call;   ///< counted from 1
  int error;  ///< errno, or short_write: a write takes half of what it is given
};

/// Records what happens below `root` while alive, and lets calls fail. One at a time, for one
/// thread. Nothing is really synced: no test waits for a disk.
class FileRecorder {
 public:
  explicit FileRecorder(std::filesystem::path root, Exchange exchange,
                        std::vector<Fault> faults = {});
  ~FileRecorder();
  FileRecorder(const FileRecorder&) = delete;
  FileRecorder& operator=(const FileRecorder&) = delete;

  void acknowledge(std::int64_t save);
  const std::vector<FileOperation>& operations() const;
  int calls() const;
  /// The calls that went wrong: without those that were not reached, or could not go wrong in that
  /// way.
  const std::vector<std::string>& failed_calls() const;
};

}  // namespace nystrom::testing
