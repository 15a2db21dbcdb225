#include "train/state/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/state/checkpoint.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = ".lock";
constexpr std::string_view mark = "nystrom run\n";

/// The first line of a file; "" without one.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool is_file(const fs::path& path) {
  return fs::symlink_status(path).type() == fs::file_type::regular;
}

/// Whether the entry at `path` is the lock of a process that is about to write its mark.
bool is_unmarked_lock(const fs::path& path) {
  return path.filename() == lock_name && is_file(path) && fs::file_size(path) == 0;
}

/// Whether the folder holds a checkpoint: a folder step-N with a manifest.
bool holds_checkpoint(const fs::path& run_dir) {
  const fs::path checkpoints = run_dir / "checkpoints";
  const auto is_manifest = [](const fs::path& path) {
    try {
      return read_json_file(path).at("files").is_object();
    } catch (const InputError&) {
      return false;
    } catch (const nlohmann::json::exception&) {
      return false;
    }
  };
  return std::ranges::any_of(checkpoint_steps(checkpoints), [&](std::int64_t step) {
    return is_manifest(checkpoint_path(checkpoints, step) / checkpoint_manifest);
  });
}

/// Whether the folder is a run, or the copy of one without its lock.
bool is_run(const fs::path& folder) {
  return first_line(folder / lock_name) + "\n" == mark || holds_checkpoint(folder);
}

}  // namespace

RunLock::RunLock(const fs::path& run_dir)
    : path_(run_dir / lock_name),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  require_success(descriptor_.is_open(), path_, "cannot create");
  const bool locked = ::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0;
  const bool marked = locked && (::lseek(descriptor_.get(), 0, SEEK_END) > 0 ||
                                 ::write(descriptor_.get(), mark.data(), mark.size()) ==
                                     static_cast<::ssize_t>(mark.size()));
  if (marked) return;
  const int error = errno;
  require_success(!locked, path_, "cannot write");
  require_input(error == EWOULDBLOCK,
                "{}: cannot be locked: {}; choose a run_dir on a file system with locks (flock)",
                printable_path(path_), std::strerror(error));
  throw InputError(fmt::format(
      "{}: another process trains in this run directory; wait for it, or choose another run_dir",
      printable_path(run_dir)));
}

void RunLock::require_held() const {
  struct stat own {
  }, there{};
  const bool held = ::fstat(descriptor_.get(), &own) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                    own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  require_input(held,
                "{}: was removed or replaced while this run trained, or the program has another "
                "current folder now; nothing more is saved there",
                printable_path(path_.parent_path()));
}

fs::path normal_place(const fs::path& path) {
  const fs::path place = fs::absolute(path).lexically_normal();
  return place.has_filename() ? place : place.parent_path();
}

void check_run_place(const fs::path& run_dir) {
  if (!fs::is_directory(run_dir)) return;
  const bool unused = std::ranges::all_of(folder_entries(run_dir), [](const fs::path& entry) {
    const bool no_checkpoint = entry.filename() == "checkpoints" && !fs::is_symlink(entry) &&
                               fs::is_directory(entry) && fs::is_empty(entry);
    return no_checkpoint || is_unmarked_lock(entry);
  });
  require_input(unused || is_run(run_dir),
                "{}: is not empty and holds no run; choose another run_dir",
                printable_path(run_dir));
  require_no_link(run_dir / "checkpoints");
}

void remove_unfinished(const fs::path& run_dir) {
  constexpr std::string_view written[] = {"config.yaml", "metrics.jsonl", "fill-masks.jsonl",
                                          "summary.json"};
  for (const fs::path& entry : leftover_files(run_dir, written)) {
    std::error_code error;
    fs::remove(entry, error);
    require_input(!error, "{}: cannot remove: {}", printable_path(entry), error.message());
  }
}

fs::path place_in_sweep(const fs::path& sweep, bool options, const fs::path& run_dir) {
  const fs::path seed = run_dir.filename(),
                 point = options ? run_dir.parent_path().filename() : fs::path(),
                 place = point / seed;
  const std::string name = seed.string();
  const bool named = (name.starts_with("seed-") || name.starts_with("fold-")) &&
                     (!options || (!point.empty() && point != "." && point != ".."));
  if (named && options) require_no_link(sweep / point);
  if (named) require_no_link(sweep / place);
  require_input(named && fs::is_directory(sweep / place),
                "{}: names the run {}, which is not in this folder; give the folder of one of its "
                "runs",
                printable_path(sweep / "summary.json"), printable_path(run_dir));
  return place;
}

}  // namespace nystrom
