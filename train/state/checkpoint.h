// Atomic, verified checkpoints. A save writes a new folder, makes it durable, verifies it, and only
// then gives it its name.
//
// A checkpoint is a folder `step-N` with any files, and a MANIFEST.json that names each file with
// its size and XXH3-128. It is also a Hugging Face folder, so every command accepts it as MODEL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/state/checkpoint_reader.h"

namespace nystrom {

/// The folder `checkpoints` of a run. Only the holder of the RunLock writes to it.
class CheckpointFolder {
 public:
  /// Creates the folder if absent. `keep` is the number of newest checkpoints to keep.
  CheckpointFolder(std::filesystem::path folder, std::int64_t keep);

  /// Writes one file of a checkpoint to `path` and returns its checksum.
  using WriteFile = std::function<std::string(const std::filesystem::path& path)>;
  /// A file of a checkpoint: its name and the function that writes it.
  struct File {
    std::string name;
    WriteFile write;
  };
  /// A file with the given content.
  static File text_file(std::string name, std::string content);

  /// Writes the files, makes them durable, reads them back, verifies them, and renames the folder
  /// to step-N. An older checkpoint of the same step stays intact until the new one durably has its
  /// name. `bytes` is the expected size. A failed write is retried once, from the start and under
  /// another name. If that fails too, throws an InputError; older checkpoints stay as they were.
  void save(std::int64_t step, const std::vector<File>& files, std::int64_t bytes);

  /// Removes the remains of an interrupted save or removal. A replaced checkpoint without a
  /// successor gets its name back.
  void remove_leftovers();
  /// Removes all checkpoints but the newest `keep` and those in `wanted`. Removes none while fewer
  /// than two newer ones are intact. `newest` is known to be intact.
  void remove_old(std::int64_t newest, const std::vector<std::int64_t>& wanted) const;
  /// Removes the checkpoints after `step`, newest first, when a run rolls back. Checkpoint `step`
  /// exists.
  void roll_back(std::int64_t step) const;
  /// The path of a checkpoint of this folder.
  std::filesystem::path path_of(std::int64_t step) const { return checkpoint_path(folder_, step); }

 private:
  void write_once(std::int64_t step, const std::vector<File>& files) const;
  void take_name(std::filesystem::path& made, std::int64_t step) const;
  void write_latest(std::int64_t step) const;
  void remove(std::int64_t step) const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

}  // namespace nystrom
