// The small part of HDF5 that data sets use: flat files of unsigned integer arrays, written once
// and read in pieces.
//
// Files are written by the HDF5 library. They are read without it: a file may come from anyone, and
// the library's reader is no place for hostile bytes. The reader here knows one form only, the one
// that the writer makes (docs/formats.md), in which every block of structure has a checksum and a
// checked place; links elsewhere, foreign storage, other types, filters or indexes have no code
// that could follow them. What it does not know is an InputError that names the file and what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/file_io.h"

namespace nystrom {

inline constexpr std::int64_t max_hdf5_chunk_bytes = std::int64_t{4} << 20;
inline constexpr std::size_t max_hdf5_arrays = 8;

/// The types of stored elements: unsigned, little-endian.
enum class StoredInteger : unsigned char { u8, u16, u32, u64 };

/// Bytes of an element.
std::int64_t size_of(StoredInteger type);
/// "u16"
const char* name_of(StoredInteger type);

/// Writes a file under a temporary name beside its place; only commit() makes it appear, whole and
/// durable. The same content gives the same bytes. Every failure is an InputError naming the file
/// and the cause, and the temporary file is removed. Writers may be used in several threads, one
/// thread each.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  /// Removes the temporary file unless committed.
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// A new empty array that grows to at most `max_rows`, stored in chunks of `chunk_rows`:
  /// shuffled, deflated and checksummed.
  void add(const std::string& name, StoredInteger type, std::int64_t chunk_rows,
           std::int64_t max_rows);
  /// Puts `values`, in the array's type, behind what it holds. Quickest in whole chunks.
  void append(const std::string& name, std::span<const std::byte> values);
  /// Closes, makes durable and renames to the final name, replacing an older file.
  void commit();

 private:
  struct State;
  [[noreturn]] void fail(const std::string& action) const;

  std::filesystem::path path_, temporary_;
  std::unique_ptr<State> state_;  // of the library
};

/// Where the parts of an array lie in its file.
struct Hdf5Array {
  struct Chunk {
    std::int64_t address, bytes;
  };
  std::string name;
  StoredInteger type = StoredInteger::u8;
  std::int64_t rows = 0;
  std::int64_t chunk_rows = 1;
  std::vector<Chunk> chunks;

  std::int64_t chunk_bytes() const { return chunk_rows * size_of(type); }
};

/// A file open for reading, its structure checked as a whole; the data is checked as it is read.
/// Safe to use from several threads.
class Hdf5File {
 public:
  explicit Hdf5File(InputFile file);

  /// In the order of the file.
  const std::vector<Hdf5Array>& arrays() const { return arrays_; }
  /// InputError when the file has no such array or it is of another type.
  const Hdf5Array& array(const std::string& name, StoredInteger type) const;

  /// The rows of chunk `index` of one of arrays(), without what fills up the last one.
  std::vector<std::byte> read_chunk(const Hdf5Array& array, std::int64_t index) const;
  /// Fills `values` with whole rows from `first` on.
  void read(const Hdf5Array& array, std::int64_t first, std::span<std::byte> values) const;

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  InputFile file_;
  std::vector<Hdf5Array> arrays_;
};

}  // namespace nystrom
