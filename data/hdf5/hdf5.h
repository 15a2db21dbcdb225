// Arrays of numbers in HDF5 files. The HDF5 library reads and writes them, without plugins, links
// into other files, external and virtual storage. SECURITY.md says what its reader is worth against
// malicious files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file_io.h"
#include "core/dtype.h"

namespace nystrom {

/// The bytes of the largest chunk.
inline constexpr std::int64_t max_chunk_bytes = std::int64_t{256} << 20;

/// The types of integers that are written, and read as they are: unsigned, little-endian.
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
  /// Adds an array with all its numbers: [rows, columns], or [rows] for `columns` 0. Integers are
  /// stored as i64, others as f64.
  void add_numbers(const std::string& name, std::span<const double> values, std::int64_t columns,
                   bool integers);
  /// Closes the file, makes it durable and renames it to the final name. An older file is replaced.
  void commit();

 private:
  struct State;
  [[noreturn]] void fail(const std::string& action) const;

  std::filesystem::path path_, temporary_;
  std::unique_ptr<State> state_;  // state of the HDF5 library
};

/// An array of numbers in a file, which stays open as long as one of its arrays. Thread-safe.
class Hdf5Array {
 public:
  /// The name.
  const std::string& name() const;
  /// The sizes of the axes. Their product, and its bytes, fit a signed 64-bit integer.
  const std::vector<std::int64_t>& shape() const;
  /// The element type: "u16", "i64", "f32", …
  const std::string& type() const;
  /// Whether the elements are half-precision numbers of IEEE 754.
  bool is_half() const;
  /// Whether the elements are floating-point numbers. All others are integers.
  bool is_floating() const { return type().starts_with('f'); }
  /// The number of indices of an axis that a chunk has; 0 without chunks.
  std::int64_t chunk_size(std::size_t axis) const;
  /// That of the first axis.
  std::int64_t chunk_rows() const { return chunk_size(0); }
  /// Whether every chunk was written. Elements that were not are read as the array's fill value.
  bool is_complete() const;
  /// Whether unpacking needs more than gzip, LZF, shuffle and checksums: scale-offset, n-bit and
  /// szip, whose code in the library fails on some damaged data.
  bool has_fragile_filters() const;

  /// Reads count[0] × count[1] × … elements, in row-major order, from the element `first` on.
  /// Throws an InputError for damaged data.
  void read(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
            std::span<double> values) const;
  /// The same for half-precision numbers, without a conversion. is_half() must be true.
  void read(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
            std::span<f16> values) const;
  /// Fills `values`, which have the type `as`, with elements `first` … of an array of rank 1.
  /// Throws an InputError for damaged data.
  void read(std::int64_t first, StoredInteger as, std::span<std::byte> values) const;

 private:
  friend class Hdf5File;
  struct State;
  explicit Hdf5Array(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

/// Throws an InputError unless another process gets through the structure of the file and of these
/// arrays, the first row of each, and all rows behind fragile filters. The library crashes or loops
/// on some damaged files, and does so whenever it reads them.
void require_harmless(const std::shared_ptr<const InputFile>& file,
                      std::span<const char* const> names);

/// A file that is open for reading. Thread-safe.
class Hdf5File {
 public:
  /// Reads this open file, even when another takes its name. Throws an InputError when it is no
  /// HDF5 file that the library reads.
  explicit Hdf5File(std::shared_ptr<const InputFile> file);

  /// The members of the root group, by name.
  std::vector<std::string> names() const;
  /// The array of that name in the root group; nothing if nothing has the name. Soft links are
  /// followed within the file. Unpacked chunks are kept in memory, up to `cache_bytes`. Throws an
  /// InputError for what is no array of numbers, needs another file or a filter that the library
  /// lacks, has larger chunks than max_chunk_bytes, or declares much more than the file holds.
  std::optional<Hdf5Array> find(const std::string& name, std::int64_t cache_bytes) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace nystrom
