// The subset of HDF5 that data sets use: flat files of unsigned integer arrays, written once and
// read in pieces.
//
// The HDF5 library writes the files, but does not read them, because files may be malicious and its
// reader is not hardened. The reader here supports only the form that the writer produces
// (docs/formats.md). Every block of that structure has a checksum and a checked position. There is
// no code for links to other files, external storage, or other types, filters and indexes. Anything
// unknown is an InputError that names the file and the problem.
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

/// The bytes of an element.
std::int64_t size_of(StoredInteger type);
/// The name of a type: "u16".
const char* name_of(StoredInteger type);

/// Writes a file under a temporary name in the same folder. Only commit() gives it its name,
/// complete and durable. The same content gives the same bytes. Every failure is an InputError that
/// names the file and the cause, and removes the temporary file. Threads may use different writers
/// at the same time.
class Hdf5Writer {
 public:
  /// Creates the temporary file.
  explicit Hdf5Writer(std::filesystem::path path);
  /// Removes the temporary file unless it was committed.
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// Adds an empty array that can grow to `max_rows`. It is stored in chunks of `chunk_rows` rows,
  /// which are shuffled, deflated and checksummed.
  void add(const std::string& name, StoredInteger type, std::int64_t chunk_rows,
           std::int64_t max_rows);
  /// Appends `values`, which have the array's type. Whole chunks are fastest.
  void append(const std::string& name, std::span<const std::byte> values);
  /// Closes the file, makes it durable and renames it to the final name. An older file is replaced.
  void commit();

 private:
  struct State;
  [[noreturn]] void fail(const std::string& action) const;

  std::filesystem::path path_, temporary_;
  std::unique_ptr<State> state_;  // state of the HDF5 library
};

/// The type and size of an array, and the positions of its chunks in the file.
struct Hdf5Array {
  struct Chunk {
    std::int64_t address, bytes;
  };
  std::string name;
  StoredInteger type = StoredInteger::u8;
  std::int64_t rows = 0;
  std::int64_t chunk_rows = 1;
  std::vector<Chunk> chunks;

  /// The bytes of an uncompressed chunk.
  std::int64_t chunk_bytes() const { return chunk_rows * size_of(type); }
};

/// A file that is open for reading. Opening checks the whole structure; data is checked when it is
/// read. Thread-safe.
class Hdf5File {
 public:
  /// Reads the structure. Throws an InputError when it is damaged or unknown.
  explicit Hdf5File(InputFile file);

  /// All arrays, in the order of the file.
  const std::vector<Hdf5Array>& arrays() const { return arrays_; }
  /// An array by name. Throws an InputError when it does not exist or has another type.
  const Hdf5Array& array(const std::string& name, StoredInteger type) const;

  /// The rows of chunk `index` of an array, without the fill of the last chunk. Throws an
  /// InputError when the chunk is damaged.
  std::vector<std::byte> read_chunk(const Hdf5Array& array, std::int64_t index) const;
  /// Fills `values` with whole rows from row `first` on.
  void read(const Hdf5Array& array, std::int64_t first, std::span<std::byte> values) const;

  /// The path of the file.
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  InputFile file_;
  std::vector<Hdf5Array> arrays_;
};

}  // namespace nystrom
