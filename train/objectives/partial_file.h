// A file that is written in parts over several runs of the program, and appears when it is
// complete.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace nystrom {

/// Throws an InputError when `path` exists.
void require_new_file(const std::filesystem::path& path);

/// The file PATH.partial, which becomes PATH. It is locked while the object lives. Every failure is
/// an InputError that names the file and the cause. The destructor leaves PATH.partial, so that
/// another run can go on; it removes one that this object made and left empty.
class PartialFile {
 public:
  /// Opens or creates PATH.partial. Throws an InputError when PATH exists or another process writes
  /// it.
  explicit PartialFile(std::filesystem::path path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  /// PATH.partial.
  const std::filesystem::path& partial() const { return partial_; }
  /// The bytes that are there.
  std::int64_t size() const;
  /// Drops the bytes from `size` on. The next append() begins there.
  void truncate(std::int64_t size);
  /// Appends bytes.
  void append(std::span<const std::byte> bytes);
  /// Replaces the bytes from `offset` on, which exist.
  void overwrite(std::string_view bytes, std::int64_t offset);
  /// Makes all bytes durable.
  void sync();
  /// Gives the file its name, durably.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;
  void write_at(std::span<const std::byte> bytes, std::int64_t offset);

  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool made_ = false;  // by this object
  std::int64_t end_ = 0;
};

}  // namespace nystrom
