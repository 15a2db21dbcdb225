#include "train/state/checkpoint.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view trash_prefix = ".trash-", latest_name = "latest";

void require_space(const fs::path& folder, std::int64_t bytes) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return;
  const auto available =
      static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
  const double needed = 1.2 * static_cast<double>(bytes);
  require_input(available >= needed,
                "{}: no space for a checkpoint: {:.1f} MB free, {:.1f} MB needed; free some, or "
                "lower checkpoint.keep",
                printable_path(folder), available / 1e6, needed / 1e6);
}

/// Renames `from` to `to`, which must not exist.
void rename_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  const bool unknown_flag = errno == EINVAL || errno == ENOSYS;
  const bool renamed =
      unknown_flag && !fs::exists(to) && std::rename(from.c_str(), to.c_str()) == 0;
  require_success(renamed, to, "cannot rename into place");
}

/// Exchanges the names of two paths atomically. Returns false, with nothing changed, if the file
/// system does not support it.
bool exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  require_success(errno == EINVAL || errno == ENOSYS, b, "cannot rename into place");
  return false;
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, std::int64_t keep, LogSink warn)
    : folder_(std::move(folder)), keep_(keep), warn_(std::move(warn)) {
  make_folders(folder_);
}

CheckpointFolder::File CheckpointFolder::text_file(std::string name, std::string content) {
  return {std::move(name), [content = std::move(content)](const fs::path& path) {
            return write_text_file(path, content);
          }};
}

void CheckpointFolder::write_once(std::int64_t step, const std::vector<File>& files) const {
  fs::path temporary = temporary_name(folder_ / checkpoint_name(step));
  try {
    std::error_code error;
    const bool made = fs::create_directory(temporary, error);
    require_input(made, "{}: cannot create the folder: {}", printable_path(temporary),
                  error ? error.message() : "it exists already");
    Json list = Json::object();
    for (const File& file : files) {
      const std::string checksum = file.write(temporary / file.name);
      list[file.name] = {{"bytes", InputFile::open(temporary / file.name).size()},
                         {"xxh3_128", checksum}};
    }
    // This also makes the names in the folder durable.
    write_text_file(temporary / checkpoint_manifest,
                    Json{{"format", 1}, {"step", step}, {"files", list}}.dump(2) + "\n");
    const std::string problem = checkpoint_problem(temporary);
    require_input(problem.empty(), "{}: written, but read back otherwise: {}",
                  printable_path(temporary), problem);
    take_name(temporary, step);
  } catch (...) {
    std::error_code ignored;
    if (!temporary.empty()) fs::remove_all(temporary, ignored);
    throw;
  }
}

/// Renames the complete checkpoint at `made` to step-N, durably, and clears `made` after the
/// rename. At every moment, a complete checkpoint of the step has a valid name. Leftovers that
/// cannot be removed here are removed at the next start.
void CheckpointFolder::take_name(fs::path& made, std::int64_t step) const {
  const fs::path temporary = made, place = folder_ / checkpoint_name(step);
  fs::path replaced = place;
  replaced += replaced_suffix;
  if (fs::exists(place) && holds_other_files(place) != false) set_aside(step);
  const bool first = !fs::exists(place);
  const bool exchanged = !first && exchange(temporary, place);
  if (!exchanged) {
    if (!first) {
      if (fs::exists(replaced)) throw_away(replaced);  // ignored while `place` exists
      rename_new(place, replaced);
      sync_folder(folder_);
    }
    rename_new(temporary, place);
  }
  made.clear();
  sync_folder(folder_);
  remove_nameless(exchanged ? temporary : replaced);
}

/// Renames a checkpoint's folder that holds files of others, or may hold them, as its manifest
/// cannot be read: they are not this program's to remove.
void CheckpointFolder::set_aside(std::int64_t step) const {
  fs::path aside = folder_ / (checkpoint_name(step) + ".with-other-files");
  if (fs::exists(aside)) aside += "-" + nonce();
  rename_new(path_of(step), aside);
  sync_folder(folder_);
}

void CheckpointFolder::save(std::int64_t step, const std::vector<File>& files, std::int64_t bytes) {
  require_space(folder_, bytes);
  try {
    write_once(step, files);
  } catch (const InputError&) {
    // A failed fsync may lose pages, so all files are written anew and not synced again.
    write_once(step, files);
  }
  write_latest(step);
}

void CheckpointFolder::write_latest(std::int64_t step) const {
  write_text_file(folder_ / latest_name, checkpoint_name(step) + "\n");
}

void CheckpointFolder::remove_old(std::int64_t newest,
                                  const std::vector<std::int64_t>& wanted) const {
  constexpr std::int64_t least = 2;
  const std::int64_t keep = std::max(keep_, least);
  const std::vector<std::int64_t> steps = checkpoint_steps(folder_);
  if (static_cast<std::int64_t>(steps.size()) <= keep)
    return;  // nothing to remove, so nothing to verify
  std::int64_t whole = 0;
  for (const std::int64_t step : steps) {
    if (whole < keep) {
      // Verify them again: a disk that fails during a run must not cost the last intact checkpoint.
      // A damaged one does not count.
      if (step == newest || checkpoint_problem(path_of(step)).empty()) ++whole;
      continue;
    }
    if (std::ranges::find(wanted, step) == wanted.end() &&
        holds_other_files(path_of(step)) == false)
      remove(step);
  }
}

void CheckpointFolder::remove(std::int64_t step) const {
  if (holds_other_files(path_of(step)) != false) return set_aside(step);
  throw_away(path_of(step));
}

void CheckpointFolder::throw_away(const fs::path& path) const {
  const fs::path trash = folder_ / (std::string(trash_prefix) + nonce());
  rename_new(path, trash);
  sync_folder(folder_);
  remove_nameless(trash);
}

/// Removes what no reader takes for a checkpoint, or else warns: it must not end the run.
void CheckpointFolder::remove_nameless(const fs::path& path) const {
  std::error_code error;
  fs::remove_all(path, error);
  if (error && warn_)
    warn_(fmt::format("{}: cannot remove: {}; a later start tries again", printable_path(path),
                      error.message()));
}

void CheckpointFolder::roll_back(std::int64_t step) const {
  for (const std::int64_t each : checkpoint_steps(folder_))
    if (each > step) remove(each);
  write_latest(step);
}

void CheckpointFolder::remove_leftovers() {
  // A name that hides a leftover must be durable before the leftover is removed.
  sync_folder(folder_);
  for (const fs::path& entry : folder_entries(folder_)) {
    const std::string name = entry.filename().string();
    const auto target = temporary_target(name);
    if (name.ends_with(replaced_suffix) && checkpoint_step(name)) {
      const fs::path place = folder_ / name.substr(0, name.size() - replaced_suffix.size());
      if (fs::exists(place))
        throw_away(entry);
      else
        rename_new(entry, place);
    } else if ((name.starts_with(trash_prefix) && is_nonce(name.substr(trash_prefix.size()))) ||
               (target && (target == latest_name || checkpoint_step(*target)))) {
      remove_nameless(entry);
    }
  }
  sync_folder(folder_);
}

}  // namespace nystrom
