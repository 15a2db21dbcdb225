// Files that may be hostile, vanish or meet a full disk: reading without surprises and writing all or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace nystrom {

/// A regular file open for reading. Never mapped: a file truncated under us must end in an error, not in SIGBUS.
class InputFile {
 public:
  /// Follows links, as model caches use them. InputError when the file is absent, unreadable or not regular.
  static InputFile open(const std::filesystem::path& path);
  /// Opens `name` inside `folder` without following a link; `name` must be a checked basename.
  static InputFile open_inside(const std::filesystem::path& folder, const std::string& name);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Fills `buffer` from byte `offset` on; InputError when the file ends before. May be called from several threads.
  void read(std::span<std::byte> buffer, std::int64_t offset) const;

 private:
  InputFile(int descriptor, std::filesystem::path path);

  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::filesystem::path path_;
};

/// Writes a file under a temporary name beside its place; only commit() makes it appear, whole and durable.
/// Every failure is an InputError naming the file and the cause, and the temporary file is removed.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  /// Removes the temporary file unless committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// fsync, close, rename to the final name (replacing an older file), fsync of the folder.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  bool exists_ = false;  // under the temporary name
};

}  // namespace nystrom
