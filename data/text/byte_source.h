// The bytes of a text file, decompressed on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "core/base/error.h"

namespace nystrom {

/// A compressed file that unpacks to far more than text does: more than bomb_ratio times its size
/// after the first bomb_free_bytes.
class DecompressionBomb : public InputError {
 public:
  using InputError::InputError;
};

inline constexpr std::int64_t bomb_ratio = 200;
inline constexpr std::int64_t bomb_free_bytes = 1 << 20;

/// Reads a file from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `buffer` as far as the file goes; the number of bytes, less than asked for only at the
  /// end. InputError naming the file when it cannot be read, is truncated or corrupt;
  /// DecompressionBomb.
  virtual std::size_t read(std::span<char> buffer) = 0;
  /// Bytes of the file, as it lies on disk, that have been read.
  virtual std::int64_t position() const = 0;
};

/// By the ending of the name: .gz (members one after another are one text), .zst (likewise; windows
/// up to 128 MiB), anything else as it is. InputError when the file is absent, unreadable or not
/// regular.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

}  // namespace nystrom
