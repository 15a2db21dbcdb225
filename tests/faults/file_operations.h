// Records the system calls with which this program writes files, and makes them fail on demand.
// Linking file_operations.cpp replaces functions of libc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nystrom::testing {

/// The effect of a call. Paths are relative to the recorder's root.
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

/// A call that fails.
struct Fault {
  static constexpr int short_write = -1;
  int call;   ///< counted from 1
  int error;  ///< errno, or short_write: a write stores half of its bytes
};

/// Records the calls below `root` during its lifetime and makes some fail. Only one recorder may
/// exist, for one thread. Syncs have no effect, so no test waits for a disk.
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
  /// How often a file was opened.
  int opened(const std::string& path) const;
  /// The calls that failed. Calls that were not reached, or that cannot fail in the given way, are
  /// not included.
  const std::vector<std::string>& failed_calls() const;
};

}  // namespace nystrom::testing
