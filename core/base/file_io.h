// Files that may be hostile, vanish or meet a full disk: reading without surprises and writing all
// or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/base/checksum.h"

namespace nystrom {

/// A regular file open for reading. Never mapped: a file truncated under us must end in an error,
/// not in SIGBUS.
class InputFile {
 public:
  /// Follows links, as model caches use them. InputError when the file is absent, unreadable or not
  /// regular.
  static InputFile open(const std::filesystem::path& path);
  /// Opens `name` inside `folder` without following a link; `name` must be a checked basename.
  static InputFile open_inside(const std::filesystem::path& folder, const std::string& name);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Fills `buffer` from byte `offset` on; InputError when the file ends before. May be called from
  /// several threads.
  void read(std::span<std::byte> buffer, std::int64_t offset) const;

 private:
  InputFile(int descriptor, std::filesystem::path path);

  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::filesystem::path path_;
};

/// Writes a file under a temporary name beside its place; only commit() makes it appear, whole and
/// durable. Every failure is an InputError naming the file and the cause, and the temporary file is
/// removed.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  /// Removes the temporary file unless committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Takes `bytes` of disk space in advance, so that a full disk shows before the work; where the
  /// file system cannot, nothing happens.
  void reserve(std::int64_t bytes);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Of what was handed to write(), not of what the disk made of it.
  std::string checksum() const { return checksum_.hex(); }
  /// fsync, close, rename to the final name (replacing an older file), fsync of the folder.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  bool exists_ = false;  // under the temporary name
  Checksum checksum_;
};

/// The most that is read of a file of settings.
inline constexpr std::size_t max_config_bytes = std::size_t{1} << 20;
/// All bytes of a regular file; InputError naming the file when it is absent, unreadable, not
/// regular or larger than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path,
                           std::size_t max_bytes = max_config_bytes);

/// Writes `text` as a whole file by OutputFile; its checksum.
std::string write_text_file(const std::filesystem::path& path, std::string_view text);

/// Checksum of a whole file, read in pieces.
std::string file_checksum(const std::filesystem::path& path);
/// Creates `folder` and the folders above it that are missing, durably. InputError when the system
/// refuses.
void make_folders(const std::filesystem::path& folder);
/// Makes the names in `folder` durable. InputError when the system refuses.
void sync_folder(const std::filesystem::path& folder);

}  // namespace nystrom
