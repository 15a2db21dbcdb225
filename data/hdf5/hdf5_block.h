// Blocks of an HDF5 file's structure, and a reader for their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "data/hdf5/hdf5.h"

namespace nystrom {

inline constexpr std::uint64_t undefined_hdf5_address = ~std::uint64_t{0};

/// Reads little-endian numbers from a block, and never beyond its end. All functions throw an
/// InputError for damaged data.
class Cursor {
 public:
  /// Reads from `bytes`, which must outlive the cursor. `where` names the block in messages.
  Cursor(std::span<const std::byte> bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  /// The next unsigned integer of `width` bytes.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const auto bytes = take(width);
    for (std::size_t i = 0; i < width; ++i)
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }
  /// The next `count` bytes.
  std::span<const std::byte> take(std::size_t count) {
    require_input(count <= bytes_.size(), "{} ends before its parts do: the file is damaged",
                  where_);
    const auto result = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return result;
  }
  /// The next `count` bytes as text.
  std::string text(std::size_t count) {
    const auto bytes = take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// Reads `expected`, or throws.
  void signature(std::string_view expected) {
    require_input(text(expected.size()) == expected,
                  "{} does not start with {}: the file is damaged", where_, expected);
  }
  /// Reads an integer of `width` bytes, or throws unless it is `expected`. `what` names it.
  void expect(std::size_t width, std::uint64_t expected, const char* what) {
    const std::uint64_t got = number(width);
    require_input(got == expected, "{}: {} is {}; only {} is read", where_, what, got, expected);
  }
  /// The number of bytes that are left.
  std::size_t left() const { return bytes_.size(); }
  /// The name of the block in messages.
  const std::string& where() const { return where_; }

 private:
  std::span<const std::byte> bytes_;
  std::string where_;
};

/// A block of the file, in memory.
struct Block {
  std::vector<std::byte> bytes;
  std::string where;
  /// A reader at the start of the block.
  Cursor cursor() const { return {bytes, where}; }
};

/// Reads `count` bytes from `address` on; `what` names them in messages. If `checksummed`, the last
/// four bytes are a checksum of the others, which is verified and removed.
Block read_block(const InputFile& file, std::uint64_t address, std::int64_t count,
                 const std::string& what, bool checksummed);

/// The layout of an array's chunks, as the file describes it.
struct ChunkLayout {
  std::uint64_t rows, element_bytes, index_address;
};

/// The positions of the chunks of `array`, whose rows and type are known. `what` names it in
/// messages.
std::vector<Hdf5Array::Chunk> read_chunk_index(const InputFile& file, const ChunkLayout& layout,
                                               const Hdf5Array& array, const std::string& what);

}  // namespace nystrom
