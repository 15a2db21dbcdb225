// File access that is safe against malicious files, vanishing files and full disks. Reading checks
// its input; writing is all or nothing.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/checksum.h"

namespace nystrom {

/// Repeats a system call that a signal interrupts.
template <class F>
auto retry(F&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}
/// Throws an InputError "PATH: ACTION: CAUSE" unless `success`. errno tells the cause.
void require_success(bool success, const std::filesystem::path& path, const char* action);

/// An open file, folder, pipe or socket, or none. The destructor closes it and leaves errno alone.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor();

  /// Whether there is one; its number, or -1.
  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// Closes it now. Returns what close() does; 0 without one.
  int close();

 private:
  int descriptor_;
};

/// Writes all bytes at the file's position. Returns whether it succeeded; errno tells the cause.
bool write_all(int descriptor, std::span<const std::byte> bytes);
/// Makes a file durable, closes it, and renames it durably. A file at `to` is replaced. Throws an
/// InputError that names `to`.
void put_in_place(Descriptor& file, const std::filesystem::path& from,
                  const std::filesystem::path& to);

/// A regular file, open for reading. It is not memory-mapped: a file that is truncated meanwhile
/// must cause an error, not a SIGBUS.
class InputFile {
 public:
  /// Opens a file. Links are followed, because model caches use them. Throws an InputError when the
  /// file is absent, unreadable or not regular.
  static InputFile open(const std::filesystem::path& path);
  /// Opens `name` inside `folder` without following a link. `name` must be a checked basename.
  static InputFile open_inside(const std::filesystem::path& folder, const std::string& name);

  /// The path of the file.
  const std::filesystem::path& path() const { return path_; }
  /// The size in bytes when the file was opened.
  std::int64_t size() const { return size_; }
  /// Fills `buffer` with the bytes from `offset` on. Throws an InputError when the file ends
  /// earlier. Calls check_interruption(). Thread-safe.
  void read(std::span<std::byte> buffer, std::int64_t offset) const;
  /// The `count` bytes from `offset` on. Throws as read().
  std::string text(std::int64_t offset, std::int64_t count) const;
  /// Adds the bytes from `begin` to `end` to a checksum. Throws as read().
  void add_to(Checksum& checksum, std::int64_t begin, std::int64_t end) const;

 private:
  InputFile(Descriptor descriptor, std::filesystem::path path);

  Descriptor descriptor_;
  std::int64_t size_ = 0;
  std::filesystem::path path_;
};

/// 16 random hexadecimal digits.
std::string nonce();
/// Whether `text` has the form of a nonce.
bool is_nonce(std::string_view text);
/// The name of a file or folder while it is written: PLACE.tmp- and a nonce.
std::filesystem::path temporary_name(const std::filesystem::path& place);
/// NAME of "NAME.tmp-" and a nonce; nothing for a name of another form.
std::optional<std::string_view> temporary_target(std::string_view name);
/// The files in `folder` that have temporary names of `targets`: a process that was killed left
/// them.
std::vector<std::filesystem::path> leftover_files(const std::filesystem::path& folder,
                                                  std::span<const std::string_view> targets);

/// Throws an InputError if `path` is a symbolic link. Whoever writes into a folder of its own calls
/// this, because a link may lead to files of others.
void require_no_link(const std::filesystem::path& path);
/// A file to append to, which is created if absent. Throws an InputError when the system refuses,
/// and for a link.
Descriptor open_to_append(const std::filesystem::path& path);

/// A file that is written under a temporary name in the same folder. Only commit() gives it its
/// name, complete and durable. Every failure is an InputError that names the file and the cause,
/// and removes the temporary file.
class OutputFile {
 public:
  /// Creates the temporary file.
  explicit OutputFile(std::filesystem::path path);
  /// Removes the temporary file unless it was committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Reserves `bytes` of disk space, so that a full disk is noticed early. Does nothing if the file
  /// system cannot reserve space.
  void reserve(std::int64_t bytes);
  /// Appends bytes.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// The checksum of the bytes that were passed to write(). The bytes on the disk may differ.
  std::string checksum() const { return checksum_.hex(); }
  /// Commits the file: fsync, close, rename to the final name, fsync of the folder. An older file
  /// is replaced.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Descriptor descriptor_;
  bool exists_ = true;  // whether the temporary file exists
  Checksum checksum_;
};

/// The largest size of a settings file: config.json names each label of a model twice.
inline constexpr std::size_t max_config_bytes = std::size_t{16} << 20;
/// Reads a regular file. Throws an InputError that names the file when it is absent, unreadable,
/// not regular or larger than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path,
                           std::size_t max_bytes = max_config_bytes);

/// Writes `text` as a file through OutputFile, and returns its checksum.
std::string write_text_file(const std::filesystem::path& path, std::string_view text);

/// The checksum of a file, which is read in pieces.
std::string file_checksum(const std::filesystem::path& path);
/// The folder that holds `path`.
std::filesystem::path parent_of(const std::filesystem::path& path);
/// The nearest folder that exists, of `folder` and its parents. Throws an InputError where anything
/// else is in the way.
std::filesystem::path nearest_folder(const std::filesystem::path& folder);
/// Creates `folder` and its missing parents durably. Throws an InputError when the system refuses.
void make_folders(const std::filesystem::path& folder);
/// Makes the names in `folder` durable. Throws an InputError when the system refuses. Does nothing
/// on a file system that has no such call for folders.
void sync_folder(const std::filesystem::path& folder);

}  // namespace nystrom
