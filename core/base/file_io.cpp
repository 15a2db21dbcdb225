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

/// Opens a file; a relative path begins at `folder`.
Descriptor open_file(const std::filesystem::path& path, int flags, int folder = AT_FDCWD) {
  return Descriptor(retry([&] { return ::openat(folder, path.c_str(), flags | O_CLOEXEC, 0666); }));
}

}  // namespace

void require_success(bool success, const std::filesystem::path& path, const char* action) {
  if (success) return;
  const char* const cause = std::strerror(errno);
  throw InputError(fmt::format("{}: {}: {}", printable_path(path), action, cause));
}

Descriptor::~Descriptor() {
  const int error = errno;
  close();
  errno = error;
}

int Descriptor::close() { return is_open() ? ::close(std::exchange(descriptor_, -1)) : 0; }

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = retry(
        [&] { return ::write(descriptor, bytes.data(), std::min(bytes.size(), max_transfer)); });
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

void put_in_place(Descriptor& file, const std::filesystem::path& from,
                  const std::filesystem::path& to) {
  // A failed fsync is not retried on this descriptor. The kernel may have dropped the pages and
  // would then report success.
  require_success(retry([&] { return ::fsync(file.get()); }) == 0, to, "cannot make durable");
  require_success(file.close() == 0, to, "cannot close");
  require_success(::rename(from.c_str(), to.c_str()) == 0, to, "cannot rename into place");
  sync_folder(parent_of(to));
}

InputFile InputFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  Descriptor descriptor = open_file(path, O_RDONLY | O_NONBLOCK);
  require_success(descriptor.is_open(), path, "cannot open");
  return InputFile(std::move(descriptor), path);
}

InputFile InputFile::open_inside(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = folder / name;
  const Descriptor directory = open_file(folder, O_RDONLY | O_DIRECTORY);
  require_success(directory.is_open(), folder, "cannot open");
  Descriptor descriptor = open_file(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, directory.get());
  require_input(descriptor.is_open() || errno != ELOOP,
                "{}: is a symbolic link, which is not followed here; put the file in its place",
                printable_path(path));
  require_success(descriptor.is_open(), path, "cannot open");
  return InputFile(std::move(descriptor), path);
}

InputFile::InputFile(Descriptor descriptor, std::filesystem::path path)
    : descriptor_(std::move(descriptor)), path_(std::move(path)) {
  struct stat status {};
  require_success(::fstat(descriptor_.get(), &status) == 0, path_, "cannot be examined");
  require_input(S_ISREG(status.st_mode), "{}: is not a regular file", printable_path(path_));
  size_ = status.st_size;
}

void InputFile::read(std::span<std::byte> buffer, std::int64_t offset) const {
  while (!buffer.empty()) {
    check_interruption();
    const auto count = retry([&] {
      return ::pread(descriptor_.get(), buffer.data(), std::min(buffer.size(), max_transfer),
                     offset);
    });
    require_success(count >= 0, path_, "cannot read");
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

void InputFile::add_to(Checksum& checksum, std::int64_t begin, std::int64_t end) const {
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::int64_t at = begin; at < end;) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(std::ssize(buffer), end - at)));
    read(part, at);
    checksum.update(part.data(), part.size());
    at += std::ssize(part);
  }
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

Descriptor open_to_append(const std::filesystem::path& path) {
  // Without a reader a FIFO in its place would block.
  Descriptor descriptor = open_file(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
  const int error = errno;
  if (!descriptor.is_open()) require_no_link(path);
  errno = error;
  require_success(descriptor.is_open(), path, "cannot open for writing");
  return descriptor;
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)),
      temporary_(temporary_name(path_)),
      descriptor_(open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)) {
  require_success(descriptor_.is_open(), path_, "cannot create");
}

OutputFile::~OutputFile() {
  descriptor_.close();
  if (exists_) ::unlink(temporary_.c_str());
}

void OutputFile::reserve(std::int64_t bytes) {
  const int error = ::posix_fallocate(descriptor_.get(), 0, bytes);  // EINVAL for no bytes, too
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL || error == ENOSYS) return;
  errno = error;
  require_success(false, path_, "cannot reserve its space");
}

void OutputFile::write(std::span<const std::byte> bytes) {
  checksum_.update(bytes.data(), bytes.size());
  require_success(write_all(descriptor_.get(), bytes), path_, "cannot write");
}

void OutputFile::commit() {
  put_in_place(descriptor_, temporary_, path_);
  exists_ = false;
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
  Checksum checksum;
  file.add_to(checksum, 0, file.size());
  return checksum.hex();
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::filesystem::path nearest_folder(const std::filesystem::path& folder) {
  std::error_code error;
  // Checked once: another process of the run may create it at the same time.
  const std::filesystem::file_status status = std::filesystem::status(folder, error);
  if (std::filesystem::is_directory(status)) return folder;
  require_input(!std::filesystem::exists(status), "{}: is no folder; name another place",
                printable_path(folder));
  const std::filesystem::path parent = parent_of(folder);
  return parent == folder ? folder : nearest_folder(parent);
}

void make_folders(const std::filesystem::path& folder) {
  if (nearest_folder(folder) == folder) return;
  std::error_code error;
  const std::filesystem::path parent = parent_of(folder);
  make_folders(parent);
  std::filesystem::create_directory(folder, error);
  require_input(!error, "{}: cannot create the folder: {}; name another place",
                printable_path(folder), error.message());
  sync_folder(parent);
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor directory = open_file(folder, O_RDONLY | O_DIRECTORY);
  require_success(directory.is_open(), folder, "cannot open the folder");
  const bool durable = retry([&] { return ::fsync(directory.get()); }) == 0;
  const bool unknown = errno == EINVAL || errno == ENOTSUP;  // for folders, as on vboxsf
  require_success(durable || unknown, folder, "cannot make its names durable");
}

}  // namespace nystrom
