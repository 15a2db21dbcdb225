// The checksum of every file and tensor that is kept: XXH3-128.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nystrom {

/// The 128 bits of a checksum, to compare and to sort by.
struct Digest {
  std::uint64_t high, low;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// XXH3-128 of what was fed in, piece by piece.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(const void* data, std::size_t bytes);
  Digest digest() const;
  /// 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  State* state_;
};

/// The checksum of a text, as hex() gives it.
std::string text_checksum(std::string_view text);

}  // namespace nystrom
