// Checkpoints that are never lost: written beside, made durable, verified, and only then given
// their name.
//
// A checkpoint is a folder `step-N` with any files and a MANIFEST.json that names each with its
// size and XXH3-128. It is also a Hugging Face folder, so every command takes it as MODEL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// The right to train in a run directory, held by one process at a time and given back when the
/// object goes.
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

/// Names each file of a checkpoint with its size and checksum.
inline constexpr const char* checkpoint_manifest = "MANIFEST.json";

/// Behind the name of a checkpoint while a newer save of its step takes that name, where the file
/// system cannot exchange two names. It counts as the checkpoint of its step while there is no
/// other.
inline constexpr std::string_view replaced_suffix = ".replaced";

/// What lies in a folder, in no order. InputError when it cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);

/// Steps of the checkpoints below `folder`, whole or not, newest first; none when there is no such
/// folder.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder);

/// The newest checkpoint below `folder` whose manifest and files hold, of step `last` or before;
/// `passed_over` gets a line for each newer one of them that does not.
std::optional<std::int64_t> newest_checkpoint(
    const std::filesystem::path& folder, std::vector<std::string>& passed_over,
    std::int64_t last = std::numeric_limits<std::int64_t>::max());
/// Its name: step-N.
std::string checkpoint_name(std::int64_t step);
/// Its path: FOLDER/step-N, or FOLDER/step-N.replaced where a crash left that alone.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);

/// Removes what writes that were killed left in `folder`, of files and folders: names with ".tmp-"
/// in them. Only the holder of the RunLock may. InputError when one cannot be removed.
void remove_unfinished(const std::filesystem::path& folder);

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

  /// Writes, makes durable, reads back and verifies, and renames to step-N. An older save of the
  /// same step stays whole until the new one durably has its name. `bytes` is the size expected. A
  /// write that fails is tried once more under another name, from the start; then InputError, with
  /// every older checkpoint as it was.
  void save(std::int64_t step, const std::vector<File>& files, std::int64_t bytes);

  /// Removes what an interrupted save left of the checkpoint being made, or of old ones being
  /// removed. A replaced checkpoint without successor gets its name back.
  void remove_leftovers();
  /// Removes all but the newest `keep` and those `wanted`, and none while fewer than two newer ones
  /// are whole. `newest` is known to be whole.
  void remove_old(std::int64_t newest, const std::vector<std::int64_t>& wanted) const;
  /// Removes those after `step`, which is there, the newest first: a run rolls back.
  void roll_back(std::int64_t step) const;
  std::filesystem::path path_of(std::int64_t step) const { return checkpoint_path(folder_, step); }

 private:
  void write_once(std::int64_t step, const std::vector<File>& files) const;
  void take_name(std::filesystem::path& made, std::int64_t step) const;
  void write_latest(std::int64_t step) const;
  void remove(std::int64_t step) const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// Why the checkpoint at `path` cannot be trusted; empty when its manifest and every file hold.
std::string checkpoint_problem(const std::filesystem::path& path);

}  // namespace nystrom
