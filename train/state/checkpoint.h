// Atomic, verified checkpoints. A save writes a new folder, makes it durable, verifies it, and only
// then gives it its name.
//
// A checkpoint is a folder `step-N` with any files, and a MANIFEST.json that names each file with
// its size and XXH3-128. It is also a Hugging Face folder, so every command accepts it as MODEL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"

namespace nystrom {

// Reading, in checkpoint_reader.cpp: which checkpoints there are, and which are intact. Their files
// may be hostile.

/// The file that names each file of a checkpoint with its size and checksum.
inline constexpr const char* checkpoint_manifest = "MANIFEST.json";

/// Suffix of an old checkpoint while a newer save of its step takes its name, on file systems that
/// cannot exchange two names. As long as no other checkpoint of that step exists, it counts as that
/// checkpoint.
inline constexpr std::string_view replaced_suffix = ".replaced";

/// The entries of a folder, in no order. Throws an InputError when the folder cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);

/// N of "step-N" or "step-N.replaced"; nothing for other names.
std::optional<std::int64_t> checkpoint_step(std::string_view name);
/// Steps of all checkpoints below `folder`, intact or damaged, newest first. Empty if the folder
/// does not exist.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder);

/// The newest checkpoint below `folder`, of step `last` or before, whose manifest and files are
/// intact. `passed_over` receives a line for each newer one that is damaged.
std::optional<std::int64_t> newest_checkpoint(
    const std::filesystem::path& folder, std::vector<std::string>& passed_over,
    std::int64_t last = std::numeric_limits<std::int64_t>::max());
/// The name of a checkpoint: step-N.
std::string checkpoint_name(std::int64_t step);
/// The path of a checkpoint: FOLDER/step-N, or FOLDER/step-N.replaced if a crash left only that.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);

/// Whether the checkpoint at `path` holds files that its manifest does not name: they belong to the
/// user. Nothing where the manifest cannot be read.
std::optional<bool> holds_other_files(const std::filesystem::path& path);

/// The reason why settings or tokenizer of a folder with a manifest are not what it says; empty if
/// they are, or there is none. Weights have checksums of their own. It may have another name.
std::string settings_problem(const std::filesystem::path& path);
/// The reason why the checkpoint at `path` is damaged; empty if its manifest and every file are
/// intact.
std::string checkpoint_problem(const std::filesystem::path& path);

// Writing.

/// The folder `checkpoints` of a run. Only the holder of the RunLock writes to it.
class CheckpointFolder {
 public:
  /// Creates the folder if absent. `keep` is the number of newest checkpoints to keep. `warn` is
  /// told what cannot be removed, as on NFS where another process reads it; it has no name of a
  /// checkpoint, and goes at a later start.
  CheckpointFolder(std::filesystem::path folder, std::int64_t keep, LogSink warn = {});

  /// A file of a checkpoint: its name, and what writes it to `path` and returns its checksum.
  struct File {
    std::string name;
    std::function<std::string(const std::filesystem::path& path)> write;
  };
  static File text_file(std::string name, std::string content);

  /// Writes the files, makes them durable, reads them back, verifies them, and renames the folder
  /// to step-N. An older checkpoint of the same step stays intact until the new one durably has its
  /// name; one with files of others stays as step-N.with-other-files. `bytes` is the expected size.
  /// A failed write is retried once, from the start and under another name. If that fails too,
  /// throws an InputError; older checkpoints stay as they were.
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
  std::filesystem::path path_of(std::int64_t step) const { return checkpoint_path(folder_, step); }

 private:
  void write_once(std::int64_t step, const std::vector<File>& files) const;
  void take_name(std::filesystem::path& made, std::int64_t step) const;
  void write_latest(std::int64_t step) const;
  void set_aside(std::int64_t step) const;
  void remove(std::int64_t step) const;
  void throw_away(const std::filesystem::path& path) const;
  void remove_nameless(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
  std::int64_t keep_;
  LogSink warn_;
};

}  // namespace nystrom
