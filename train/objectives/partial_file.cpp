#include "train/objectives/partial_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

// Linux transfers at most 2 GiB in a call.
constexpr std::size_t max_transfer = std::size_t{1} << 30;

}  // namespace

void require_new_file(const std::filesystem::path& path) {
  std::error_code error;
  require_input(!std::filesystem::exists(std::filesystem::symlink_status(path, error)),
                "{}: exists already; remove it, or give --output another name",
                printable_path(path));
}

PartialFile::PartialFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  require_new_file(path_);
  constexpr int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  descriptor_ = ::open(partial_.c_str(), flags | O_EXCL, 0666);
  made_ = descriptor_ >= 0;
  if (!made_) descriptor_ = ::open(partial_.c_str(), flags, 0666);
  if (descriptor_ < 0) fail("cannot create");
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  const bool locked = regular && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  if (locked) return;
  ::close(descriptor_);
  throw InputError(fmt::format("{}: {}", printable_path(partial_),
                               regular ? "another process writes it" : "is not a regular file"));
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  struct stat status {};
  if (made_ && ::fstat(descriptor_, &status) == 0 && status.st_size == 0)
    ::unlink(partial_.c_str());
  ::close(descriptor_);
}

void PartialFile::fail(const char* action) const {
  throw InputError(
      fmt::format("{}: {}: {}", printable_path(partial_), action, std::strerror(errno)));
}

std::int64_t PartialFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot be examined");
  return status.st_size;
}

void PartialFile::truncate(std::int64_t size) {
  if (::ftruncate(descriptor_, size) != 0) fail("cannot truncate");
  end_ = size;
}

void PartialFile::write_at(std::span<const std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const auto count =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), max_transfer), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void PartialFile::append(std::span<const std::byte> bytes) {
  write_at(bytes, end_);
  end_ += std::ssize(bytes);
}

void PartialFile::overwrite(std::string_view bytes, std::int64_t offset) {
  write_at(std::as_bytes(std::span(bytes)), offset);
}

void PartialFile::sync() {
  if (::fsync(descriptor_) != 0) fail("cannot make durable");
}

void PartialFile::commit() {
  sync();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("cannot rename into place");
  const std::filesystem::path folder = path_.parent_path();
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace nystrom
