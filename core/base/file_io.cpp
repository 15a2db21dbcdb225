#include "core/base/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/base/require.h"

namespace nystrom {
namespace {

// Linux transfers at most 2 GiB in a call.
constexpr std::size_t max_transfer = std::size_t{1} << 30;
constexpr std::string_view temporary_mark = ".tmp-";

std::string error_text() { return std::strerror(errno); }

/// Repeats a system call that a signal interrupts.
template <class F>
auto retry(F&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

InputFile InputFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int descriptor =
      retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  require_input(descriptor >= 0, "{}: cannot open: {}", printable_path(path), error_text());
  return InputFile(descriptor, path);
}

InputFile InputFile::open_inside(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = folder / name;
  const int directory =
      retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  require_input(directory >= 0, "{}: cannot open: {}", printable_path(folder), error_text());
  const int descriptor = retry([&] {
    return ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  });
  const int error = errno;
  ::close(directory);
  errno = error;
  require_input(descriptor >= 0 || error != ELOOP,
                "{}: is a symbolic link, which is not followed here; put the file in its place",
                printable_path(path));
  require_input(descriptor >= 0, "{}: cannot open: {}", printable_path(path), error_text());
  return InputFile(descriptor, path);
}

InputFile::InputFile(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason =
        known ? "is not a regular file" : "cannot be examined: " + error_text();
    ::close(descriptor_);
    throw InputError(fmt::format("{}: {}", printable_path(path_), reason));
  }
  size_ = status.st_size;
}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::span<std::byte> buffer, std::int64_t offset) const {
  while (!buffer.empty()) {
    check_interruption();
    const auto count = retry([&] {
      return ::pread(descriptor_, buffer.data(), std::min(buffer.size(), max_transfer), offset);
    });
    require_input(count >= 0, "{}: cannot read: {}", printable_path(path_), error_text());
    require_input(count > 0, "{}: ends at byte {}, {} more expected: it changed while being read",
                  printable_path(path_), offset, buffer.size());
    buffer = buffer.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

std::string InputFile::text(std::int64_t offset, std::int64_t count) const {
  std::string text(static_cast<std::size_t>(count), '\0');
  read(std::as_writable_bytes(std::span(text)), offset);
  return text;
}

std::string nonce() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

bool is_nonce(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::filesystem::path temporary_name(const std::filesystem::path& place) {
  return place.string() + std::string(temporary_mark) + nonce();
}

std::optional<std::string_view> temporary_target(std::string_view name) {
  const std::size_t at = name.rfind(temporary_mark);
  if (at == name.npos || at == 0 || !is_nonce(name.substr(at + temporary_mark.size()))) return {};
  return name.substr(0, at);
}

std::vector<std::filesystem::path> leftover_files(const std::filesystem::path& folder,
                                                  std::span<const std::string_view> targets) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto target = temporary_target(name);
    if (target && std::ranges::find(targets, *target) != targets.end() &&
        entry.symlink_status(ignored).type() == std::filesystem::file_type::regular)
      found.push_back(entry.path());
  }
  return found;
}

void require_no_link(const std::filesystem::path& path) {
  std::error_code ignored;
  require_input(!std::filesystem::is_symlink(path, ignored),
                "{}: is a symbolic link, which is not followed here; put what it names in its "
                "place",
                printable_path(path));
}

int open_to_append(const std::filesystem::path& path) {
  const int descriptor = retry([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  });
  const int error = errno;
  if (descriptor < 0) require_no_link(path);
  require_input(descriptor >= 0, "{}: cannot open for writing: {}", printable_path(path),
                std::strerror(error));
  return descriptor;
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  descriptor_ = retry([&] {
    return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
  if (descriptor_ < 0) fail("cannot create");
  exists_ = true;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (exists_) ::unlink(temporary_.c_str());
}

void OutputFile::fail(const char* action) const {
  throw InputError(fmt::format("{}: {}: {}", printable_path(path_), action, error_text()));
}

void OutputFile::reserve(std::int64_t bytes) {
  const int error = bytes > 0 ? ::posix_fallocate(descriptor_, 0, bytes) : 0;
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL || error == ENOSYS) return;
  errno = error;
  fail("cannot reserve its space");
}

void OutputFile::write(std::span<const std::byte> bytes) {
  checksum_.update(bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const auto count = retry(
        [&] { return ::write(descriptor_, bytes.data(), std::min(bytes.size(), max_transfer)); });
    if (count < 0) fail("cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void OutputFile::commit() {
  // A failed fsync is not retried on this descriptor. The kernel may have dropped the pages and
  // would then report success.
  if (retry([&] { return ::fsync(descriptor_); }) != 0) fail("cannot make durable");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename into place");
  exists_ = false;
  sync_folder(parent_of(path_));
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const InputFile file = InputFile::open(path);
  require_input(file.size() <= static_cast<std::int64_t>(max_bytes),
                "{}: the file has {} bytes; at most {} are read", printable_path(path), file.size(),
                max_bytes);
  return file.text(0, file.size());
}

std::string write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
  return file.checksum();
}

std::string file_checksum(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  Checksum checksum;
  for (std::int64_t at = 0; at < file.size();) {
    const auto count =
        std::min<std::int64_t>(static_cast<std::int64_t>(buffer.size()), file.size() - at);
    file.read(std::span(buffer).first(static_cast<std::size_t>(count)), at);
    checksum.update(buffer.data(), static_cast<std::size_t>(count));
    at += count;
  }
  return checksum.hex();
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  // Checked once: another process of the run may create it at the same time.
  const std::filesystem::file_status status = std::filesystem::status(folder, error);
  if (std::filesystem::is_directory(status)) return;
  require_input(!std::filesystem::exists(status), "{}: is no folder; name another place",
                printable_path(folder));
  const std::filesystem::path parent = parent_of(folder);
  if (parent != folder) make_folders(parent);
  std::filesystem::create_directory(folder, error);
  require_input(!error, "{}: cannot create the folder: {}", printable_path(folder),
                error.message());
  sync_folder(parent);
}

void sync_folder(const std::filesystem::path& folder) {
  const int directory =
      retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  require_input(directory >= 0, "{}: cannot open the folder: {}", printable_path(folder),
                error_text());
  const int result = retry([&] { return ::fsync(directory); });
  const std::string reason = error_text();
  ::close(directory);
  require_input(result == 0, "{}: cannot make its names durable: {}", printable_path(folder),
                reason);
}

}  // namespace nystrom
