// Arrays of numbers in HDF5 files as the HDF5 library, h5py and PyTables write them by default:
// superblock 0, one root group with a symbol table, arrays of any rank in one piece or in chunks.
// As in data/hdf5/hdf5.h, files are read without the library, as they may come from anyone; what is
// not known here is an InputError that names the file and what.
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

/// How the elements of an array are stored: little-endian.
enum class StoredNumber : unsigned char { unsigned_integer, signed_integer, floating };

struct ClassicArray {
  std::string name;
  StoredNumber kind = StoredNumber::unsigned_integer;
  std::int64_t element_bytes = 0;  ///< 1, 2, 4 or 8; floating: 4 or 8
  std::vector<std::int64_t> shape;

  struct Chunk {
    std::vector<std::int64_t> first;  // its first element
    std::int64_t address, bytes;
  };
  std::vector<std::int64_t> chunk_shape;  ///< empty: in one piece at `address`
  std::vector<Chunk> chunks;              ///< sorted by first
  std::vector<unsigned> filters;  ///< in the order of writing: 1 deflate, 2 shuffle, 3 fletcher32
  std::int64_t address = 0;

  std::int64_t elements() const;
  /// "i64", "f32", …
  std::string type() const;
};

/// A file open for reading, its structure checked as a whole. Safe to use from several threads.
class ClassicHdf5File {
 public:
  explicit ClassicHdf5File(InputFile file);

  /// Those of the root group, by name; groups inside it are left out.
  const std::vector<ClassicArray>& arrays() const { return arrays_; }
  /// nullptr when there is none.
  const ClassicArray* find(const std::string& name) const;

  /// Elements `first` … `first + values.size()` − 1 in row-major order, converted. InputError for
  /// what is damaged.
  void read(const ClassicArray& array, std::int64_t first, std::span<double> values) const;

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  using Bytes = std::vector<std::byte>;
  std::shared_ptr<const Bytes> chunk(const ClassicArray& array, std::size_t index) const;
  Bytes read_chunk(const ClassicArray& array, const ClassicArray::Chunk& chunk) const;

  InputFile file_;
  std::vector<ClassicArray> arrays_;
  mutable std::mutex mutex_;  // of the cache
  mutable LruCache<std::int64_t, Bytes> cache_{std::int64_t{64} << 20};
};

/// The arrays of the file, their places checked against its size.
std::vector<ClassicArray> read_classic_structure(const InputFile& file);

}  // namespace nystrom
