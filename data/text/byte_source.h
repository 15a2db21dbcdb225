// The decompressed bytes of texts and tables, whose ending names the compression. name_ending
// (data/text/match_files.h) names the form below it, and knows the same endings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "core/base/error.h"

namespace nystrom {

/// Thrown for a compressed file that expands far more than text does: to more than bomb_ratio times
/// its size and bomb_free_bytes. A part of it may.
class DecompressionBomb : public InputError {
 public:
  using InputError::InputError;
};

inline constexpr std::int64_t bomb_ratio = 200;
inline constexpr std::int64_t bomb_free_bytes = 1 << 20;

/// How much readers take of a file at once.
inline constexpr std::size_t read_block_bytes = std::size_t{1} << 18;

/// Reads a file sequentially.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;
  /// Fills `buffer` and returns the number of bytes, which is smaller than the buffer only at the
  /// end of the file. Throws an InputError that names the file when it is unreadable, truncated or
  /// corrupt, and a DecompressionBomb.
  virtual std::size_t read(std::span<char> buffer) = 0;
  /// The number of bytes of the file on disk that have been read.
  virtual std::int64_t position() const = 0;
};

/// Throws an InputError for a Parquet or an Arrow file, with the line that converts it. Their rows
/// lie in columns, which only Python's libraries read.
void refuse_columns_of_arrow(const std::filesystem::path& path);

/// Opens a file by the ending of its name: .gz (concatenated members form one text), .zst
/// (likewise, with windows up to 128 MiB), or uncompressed. Throws an InputError when the file is
/// absent, unreadable or not regular, and for the files that refuse_columns_of_arrow refuses.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

}  // namespace nystrom
