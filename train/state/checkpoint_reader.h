// Reading of checkpoints: which there are, and which are intact. Their files may be hostile.
// hostile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

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

/// Whether the checkpoint at `path` holds only files that its manifest names. Only such a folder is
/// removed: what else is in it belongs to the user.
bool holds_only_its_files(const std::filesystem::path& path);

/// The reason why the checkpoint at `path` is damaged; empty if its manifest and every file are
/// intact.
std::string checkpoint_problem(const std::filesystem::path& path);

}  // namespace nystrom
