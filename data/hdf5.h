// The small part of HDF5 that data sets use: flat files of unsigned integer arrays, written once and read in pieces.
//
// A file read here may come from anyone. It is scanned before the library sees it (data/hdf5_scan.h), and what the library then says
// of it is checked again: hard links to data sets only, unsigned little-endian integers of rank 1 or 2, chunks in the file itself under
// the filters shuffle, deflate and fletcher32, sizes that fit together. Everything else is an InputError that names the file and what.
//
// The library is entered by one thread at a time: every function here takes one lock, so all may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nystrom {

/// The types of stored elements: unsigned, little-endian.
enum class StoredInteger : unsigned char { u8, u16, u32, u64 };

/// Bytes of an element.
std::int64_t size_of(StoredInteger type);
/// "u16"
const char* name_of(StoredInteger type);

/// An identifier of the library, closed with its owner.
class Hdf5Id {
 public:
  using Close = int (*)(std::int64_t);

  Hdf5Id() = default;
  Hdf5Id(std::int64_t id, Close close) : id_(id), close_(close) {}
  Hdf5Id(Hdf5Id&& other) noexcept;
  Hdf5Id& operator=(Hdf5Id&& other) noexcept;
  ~Hdf5Id();

  std::int64_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Closes now; false when the library refuses, as it does when the disk is full.
  bool close();

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

/// Writes a file under a temporary name beside its place; only commit() makes it appear, whole and durable. The same content gives the
/// same bytes. Every failure is an InputError naming the file and the cause, and the temporary file is removed.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  /// Removes the temporary file unless committed.
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// A new empty array that grows to at most `max_rows`, stored in chunks of `chunk_rows`: shuffled, deflated and checksummed.
  void add(const std::string& name, StoredInteger type, std::int64_t chunk_rows, std::int64_t max_rows);
  /// Puts `values`, in the array's type, behind what it holds. Quickest in whole chunks.
  void append(const std::string& name, std::span<const std::byte> values);
  /// Closes, makes durable and renames to the final name, replacing an older file.
  void commit();

 private:
  struct Array {
    StoredInteger type;
    Hdf5Id id;
    std::int64_t rows;
  };
  [[noreturn]] void fail(const std::string& action) const;

  std::filesystem::path path_, temporary_;
  bool exists_ = false;  // under the temporary name
  Hdf5Id file_;
  std::map<std::string, Array> arrays_;
};

/// An array of an open file whose form has been checked. It keeps the file open.
class Hdf5Array {
 public:
  StoredInteger type() const { return type_; }
  std::int64_t rows() const { return rows_; }
  /// 1 for an array of rank 1.
  std::int64_t columns() const { return columns_; }
  /// Bytes of a row.
  std::int64_t row_bytes() const { return columns_ * size_of(type_); }

  /// Fills `values` with whole rows from row `first` on. InputError when the stored data is damaged.
  void read(std::int64_t first, std::span<std::byte> values) const;

 private:
  friend class Hdf5File;
  std::string where_;  // for messages: file and array
  std::shared_ptr<Hdf5Id> file_;
  Hdf5Id id_;
  StoredInteger type_ = StoredInteger::u8;
  int rank_ = 1;
  std::int64_t rows_ = 0, columns_ = 1;
};

/// A file open for reading, all its arrays checked.
class Hdf5File {
 public:
  /// The file `name` in `folder`, not through a link.
  static Hdf5File open(const std::filesystem::path& folder, const std::string& name);
  /// A file that lies in memory, called `source` in messages.
  static Hdf5File from_memory(std::span<const std::byte> bytes, const std::string& source);

  /// Names of the arrays, sorted.
  std::vector<std::string> names() const;
  /// InputError when the file has no such array or it is of another type than `type`.
  const Hdf5Array& array(const std::string& name, StoredInteger type) const;
  const Hdf5Array& array(const std::string& name) const;

 private:
  Hdf5File(std::string source, Hdf5Id file, std::int64_t bytes);
  Hdf5Array check_array(const std::string& name, std::int64_t file_bytes) const;

  std::string source_;
  std::shared_ptr<Hdf5Id> file_;
  std::map<std::string, Hdf5Array> arrays_;
};

}  // namespace nystrom
