// Arrays of numbers in HDF5 files in the default form of the HDF5 library, h5py and PyTables. That
// form has superblock 0 and a root group with a symbol table. Arrays have any rank, and are
// contiguous or chunked. As in data/hdf5/hdf5.h, files are read without the library, because they
// may be malicious. Anything unknown is an InputError that names the file and the problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/file_io.h"
#include "core/base/lru_cache.h"

namespace nystrom {

inline constexpr std::int64_t max_classic_chunk_bytes = std::int64_t{256} << 20;

/// The kinds of stored numbers, all little-endian.
enum class StoredNumber : unsigned char { unsigned_integer, signed_integer, floating };

/// An array: its type, its shape, and its position in the file.
struct ClassicArray {
  std::string name;
  StoredNumber kind = StoredNumber::unsigned_integer;
  std::int64_t element_bytes = 0;  ///< 1, 2, 4 or 8; floating: 4 or 8
  std::vector<std::int64_t> shape;

  struct Chunk {
    std::vector<std::int64_t> first;  // the chunk's first element
    std::int64_t address, bytes;
  };
  std::vector<std::int64_t> chunk_shape;  ///< empty: contiguous at `address`
  std::vector<Chunk> chunks;              ///< sorted by first
  /// In the order of writing: 1 deflate, 2 shuffle, 3 fletcher32.
  std::vector<unsigned> filters;
  std::int64_t address = 0;

  /// The number of elements.
  std::int64_t elements() const;
  /// The element type: "i64", "f32", …
  std::string type() const;
};

/// A file that is open for reading. Opening checks the whole structure. Thread-safe.
class ClassicHdf5File {
 public:
  /// Reads the structure. Throws an InputError when it is damaged or unknown.
  explicit ClassicHdf5File(InputFile file);

  /// The arrays of the root group, by name. Other groups are ignored.
  const std::vector<ClassicArray>& arrays() const { return arrays_; }
  /// An array by name; null if it does not exist.
  const ClassicArray* find(const std::string& name) const;

  /// Reads elements `first` … `first + values.size()` − 1 in row-major order, converted to double.
  /// Throws an InputError for damaged data.
  void read(const ClassicArray& array, std::int64_t first, std::span<double> values) const;

  /// The path of the file.
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  using Bytes = std::vector<std::byte>;
  std::shared_ptr<const Bytes> chunk(const ClassicArray& array, std::size_t index) const;
  Bytes read_chunk(const ClassicArray& array, const ClassicArray::Chunk& chunk) const;

  InputFile file_;
  std::vector<ClassicArray> arrays_;
  mutable std::mutex mutex_;  // protects the cache
  mutable LruCache<std::int64_t, Bytes> cache_{std::int64_t{64} << 20};
};

/// The arrays of the file. Their positions are checked against its size.
std::vector<ClassicArray> read_classic_structure(const InputFile& file);

}  // namespace nystrom
