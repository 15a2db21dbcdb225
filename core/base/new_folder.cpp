#include "core/base/new_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/printable.h"
#include "core/base/require.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

void remove_leftovers(const fs::path& place) {
  const std::string name = place.filename().string();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent_of(place), ignored)) {
    if (temporary_target(entry.path().filename().string()) != name) continue;
    const Descriptor lock = lock_folder(entry.path());
    if (!lock.is_open()) continue;
    if (fs::is_regular_file(fs::symlink_status(entry.path() / unfinished_mark, ignored)))
      fs::remove_all(entry.path(), ignored);
    else
      ::rmdir(entry.path().c_str());  // succeeds for an empty folder alone
  }
}

/// Gives `folder` the owner, the group and the permissions of the one that it replaces. Where the
/// system does not let it have the group, nobody but the owner may do more than in either. Returns
/// false, and sets errno, if the permissions cannot change.
bool keep_access(const fs::path& folder, const fs::path& replaced) {
  struct stat now {};
  struct stat kept {};
  if (::stat(replaced.c_str(), &kept) != 0 || ::stat(folder.c_str(), &now) != 0) return true;
  const bool of_group = (now.st_uid == kept.st_uid && now.st_gid == kept.st_gid) ||
                        ::chown(folder.c_str(), kept.st_uid, kept.st_gid) == 0 ||
                        now.st_gid == kept.st_gid || ::chown(folder.c_str(), -1, kept.st_gid) == 0;
  const mode_t mode = ((of_group ? kept.st_mode : kept.st_mode & now.st_mode) & 07777) | S_IRWXU;
  return (now.st_mode & 07777) == mode || ::chmod(folder.c_str(), mode) == 0;
}

}  // namespace

Descriptor lock_folder(const fs::path& folder) {
  Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (lock.is_open() && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock = Descriptor();
  return lock;
}

bool has_no_locks(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

fs::path require_empty_target(const fs::path& folder) {
  require_input(!folder.empty(), "the folder to write has no name");
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(folder), error);
  require_input(!error, "{}: cannot create: {}", printable_path(folder), error.message());
  if (!place.has_filename()) place = place.parent_path();
  if (!fs::exists(place, error)) {
    require_input(!fs::is_symlink(fs::symlink_status(place, error)),
                  "{}: is a link to a folder that does not exist; name a new one",
                  printable_path(folder));
    return place;
  }
  require_input(fs::is_directory(place, error), "{}: exists and is no folder; name a new one",
                printable_path(folder));
  const bool empty = fs::is_empty(place, error);
  require_input(!error, "{}: cannot open the folder: {}", printable_path(folder), error.message());
  require_input(empty, "{}: is not empty; name a new folder", printable_path(folder));
  require_input(!fs::equivalent(place, ".", error),
                "{}: is the current folder, which would be replaced; name a new folder",
                printable_path(folder));
  return place;
}

NewFolder::NewFolder(fs::path place) : place_(std::move(place)) {
  make_folders(parent_of(place_));
  remove_leftovers(place_);
  // Another process may take it for a leftover before it is locked.
  constexpr int tries = 100;
  for (int i = 0; i < tries && !make_temporary(); ++i) continue;
  const Descriptor mark(::open((temporary_ / unfinished_mark).c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  const bool made = mark.is_open() && keep_access(temporary_, place_);
  const int error = errno;
  if (!made) discard();
  errno = error;
  require_success(made, place_, mark.is_open() ? "cannot keep its permissions" : "cannot create");
}

bool NewFolder::make_temporary() {
  temporary_ = temporary_name(place_);
  std::error_code error;
  fs::create_directory(temporary_, error);
  require_input(!error, "{}: cannot create: {}", printable_path(place_), error.message());
  lock_ = lock_folder(temporary_);
  const int reason = errno;
  if (!fs::exists(temporary_)) return false;
  if (lock_.is_open() || has_no_locks(reason)) return true;
  ::rmdir(temporary_.c_str());
  require_input(reason == EWOULDBLOCK, "{}: cannot lock: {}", printable_path(place_),
                std::strerror(reason));
  return false;
}

NewFolder::~NewFolder() { discard(); }

void NewFolder::discard() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void NewFolder::commit() {
  std::error_code error;
  fs::remove(temporary_ / unfinished_mark, error);
  if (!error) fs::rename(temporary_, place_, error);
  require_input(!error, "{}: cannot rename into place: {}", printable_path(place_),
                error.message());
  sync_folder(parent_of(place_));
}

}  // namespace nystrom
