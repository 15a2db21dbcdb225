// Checkpoints that are never lost: written beside, made durable, verified, and only then given their name.
//
// A checkpoint is a folder `step-N` with any files and a MANIFEST.json that names each with its size and XXH3-128. It is also a Hugging
// Face folder, so every command takes it as MODEL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nystrom {

/// The right to train in a run directory, held by one process at a time and given back when the object goes.
class RunLock {
 public:
  /// InputError when another process holds it.
  explicit RunLock(const std::filesystem::path& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

/// Steps of the checkpoints below `folder`, whole or not, newest first; none when there is no such folder.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder);

/// The newest checkpoint below `folder` whose manifest and files hold; `passed_over` gets a line for each newer one that does not.
std::optional<std::int64_t> newest_checkpoint(const std::filesystem::path& folder, std::vector<std::string>& passed_over);
/// Its path: FOLDER/step-N.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);

/// The folder `checkpoints` of a run. Only the holder of the RunLock writes.
class CheckpointFolder {
 public:
  /// Creates the folder when absent. `keep` is the number of newest checkpoints that stay.
  CheckpointFolder(std::filesystem::path folder, std::int64_t keep);

  /// Writes a file into the checkpoint being made and returns its checksum.
  using WriteFile = std::function<std::string(const std::filesystem::path& path)>;
  struct File {
    std::string name;
    WriteFile write;
  };
  /// One whose content is known.
  static File text_file(std::string name, std::string content);

  /// Writes, makes durable, reads back and verifies, renames to step-N, and removes old ones: all but the newest `keep` and `best`, and
  /// none while fewer than two newer ones are whole. `bytes` is the size expected. A write that fails is tried once more under another
  /// name, from the start; then InputError, with every older checkpoint as it was.
  void save(std::int64_t step, const std::vector<File>& files, std::int64_t bytes, std::optional<std::int64_t> best);

  /// Removes what an interrupted save left of the checkpoint being made, or of old ones being removed.
  void remove_leftovers();
  /// Removes all but the newest `keep` and `best`, and none while fewer than two newer ones are whole. `newest` is known to be whole.
  /// save() does it; an interrupted one may not have come to it.
  void remove_old(std::int64_t newest, std::optional<std::int64_t> best) const;
  std::filesystem::path path_of(std::int64_t step) const { return checkpoint_path(folder_, step); }

 private:
  void write_once(std::int64_t step, const std::vector<File>& files) const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// Why the checkpoint at `path` cannot be trusted; empty when its manifest and every file hold.
std::string checkpoint_problem(const std::filesystem::path& path);

}  // namespace nystrom
