#include "train/state/checkpoint.h"

#include <algorithm>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";

std::string file_problem(const fs::path& folder, const std::string& name,
                         const nlohmann::json& entry) {
  if (fs::path(name).filename() != name || name.empty())
    return fmt::format("{} names a file outside: {}", checkpoint_manifest, printable(name));
  const auto bytes = json_count(entry.at("bytes"), "bytes");
  const auto size = InputFile::open_inside(folder, name).size();
  if (size != bytes)
    return fmt::format("{} has {} bytes, expected {}", printable(name), size, bytes);
  const std::string checksum = file_checksum(folder / name);
  const auto expected = entry.at("xxh3_128").get<std::string>();
  return checksum == expected ? ""
                              : fmt::format("{} has checksum {}, expected {}", printable(name),
                                            checksum, printable(expected));
}

/// The first problem of the files that `manifest` names, of those that `counts` is true for.
std::string files_problem(const fs::path& folder, const nlohmann::json& manifest,
                          const std::function<bool(const std::string& name)>& counts) {
  for (const auto& [name, entry] : manifest.at("files").items())
    if (counts(name))
      if (const std::string problem = file_problem(folder, name, entry); !problem.empty())
        return problem;
  return "";
}

/// The result of `find` in the manifest, or why it cannot be read.
std::string manifest_problem(const fs::path& folder,
                             const std::function<std::string(const nlohmann::json&)>& find) {
  try {
    return find(read_json_file(folder / checkpoint_manifest));
  } catch (const Error& error) {
    return error.what();
  } catch (const nlohmann::json::exception&) {
    return fmt::format("{} is not a manifest", checkpoint_manifest);
  }
}

}  // namespace

std::vector<fs::path> folder_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    entries.push_back(entry->path());
  require_input(!error, "{}: cannot read the folder: {}", printable_path(folder), error.message());
  return entries;
}

std::optional<std::int64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with(prefix)) return {};
  if (name.ends_with(replaced_suffix)) name.remove_suffix(replaced_suffix.size());
  const auto step = number_of<std::int64_t>(name.substr(prefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

std::vector<std::int64_t> checkpoint_steps(const fs::path& folder) {
  std::set<std::int64_t, std::greater<>> found;  // a step counts once next to what it replaces
  if (!fs::is_directory(folder)) return {};
  for (const fs::path& entry : folder_entries(folder)) {
    const std::string name = entry.filename().string();
    if (const auto step = checkpoint_step(name)) found.insert(*step);
  }
  return {found.begin(), found.end()};
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{}", prefix, step); }

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  fs::path place = folder / checkpoint_name(step), replaced = place;
  replaced += replaced_suffix;
  return !fs::exists(place) && fs::exists(replaced) ? replaced : place;
}

std::optional<std::int64_t> newest_checkpoint(const fs::path& folder,
                                              std::vector<std::string>& passed_over,
                                              std::int64_t last) {
  for (const std::int64_t step : checkpoint_steps(folder)) {
    if (step > last) continue;
    const fs::path path = checkpoint_path(folder, step);
    const std::string problem = checkpoint_problem(path);
    if (problem.empty()) return step;
    passed_over.push_back(fmt::format("{}: passed over: {}", printable_path(path), problem));
  }
  return {};
}

std::optional<bool> holds_other_files(const fs::path& path) {
  try {
    const auto files =
        read_json_file(path / checkpoint_manifest).at("files").get<nlohmann::json::object_t>();
    return std::ranges::any_of(folder_entries(path), [&](const fs::path& entry) {
      const std::string name = entry.filename().string();
      return name != checkpoint_manifest && !files.contains(name);
    });
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string settings_problem(const fs::path& path) {
  if (!fs::exists(path / checkpoint_manifest)) return "";
  return manifest_problem(path, [&](const nlohmann::json& manifest) {
    return files_problem(path, manifest, [&](const std::string& name) {
      return !name.ends_with(".safetensors") && fs::exists(path / name);
    });
  });
}

std::string checkpoint_problem(const fs::path& path) {
  return manifest_problem(path, [&](const nlohmann::json& manifest) -> std::string {
    if (manifest.at("format") != 1)
      return fmt::format("{} has an unknown format", checkpoint_manifest);
    const auto step = json_count(manifest.at("step"), "step");
    const std::string folder = path.filename().string(), expected = checkpoint_name(step);
    const bool named = folder == expected || folder == expected + std::string(replaced_suffix);
    if (!named && temporary_target(folder) != expected)
      return fmt::format("{} is of step {}", checkpoint_manifest, step);
    return files_problem(path, manifest, [](const std::string&) { return true; });
  });
}

}  // namespace nystrom
