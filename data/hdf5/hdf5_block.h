// Blocks of structure in an HDF5 file, and numbers out of them.
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

/// Little-endian numbers out of a block, never beyond its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const auto bytes = take(width);
    for (std::size_t i = 0; i < width; ++i)
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }
  std::span<const std::byte> take(std::size_t count) {
    require_input(count <= bytes_.size(), "{} ends before its parts do: the file is damaged",
                  where_);
    const auto result = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return result;
  }
  std::string text(std::size_t count) {
    const auto bytes = take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// The next bytes must be `expected`.
  void signature(std::string_view expected) {
    require_input(text(expected.size()) == expected,
                  "{} does not start with {}: the file is damaged", where_, expected);
  }
  void expect(std::size_t width, std::uint64_t expected, const char* what) {
    const std::uint64_t got = number(width);
    require_input(got == expected, "{}: {} is {}; only {} is read", where_, what, got, expected);
  }
  std::size_t left() const { return bytes_.size(); }
  const std::string& where() const { return where_; }

 private:
  std::span<const std::byte> bytes_;
  std::string where_;
};

/// A block of the file, kept in memory.
struct Block {
  std::vector<std::byte> bytes;
  std::string where;
  Cursor cursor() const { return {bytes, where}; }
};

/// Bytes of the file from `address` on, `what` in messages; with `checksummed` the last four are
/// the checksum of those before, which are returned.
Block read_block(const InputFile& file, std::uint64_t address, std::int64_t count,
                 const std::string& what, bool checksummed);

/// Where an array's chunks are said to lie.
struct ChunkLayout {
  std::uint64_t rows, element_bytes, index_address;
};

/// The places of the chunks of `array`, whose rows and type are known; `what` in messages.
std::vector<Hdf5Array::Chunk> read_chunk_index(const InputFile& file, const ChunkLayout& layout,
                                               const Hdf5Array& array, const std::string& what);

}  // namespace nystrom
