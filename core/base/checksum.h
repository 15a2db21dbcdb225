// XXH3-128, the checksum of all stored files and tensors.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nystrom {

/// The 128 bits of a checksum, which can be compared and sorted.
struct Digest {
  std::uint64_t high, low;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// The XXH3-128 of data that arrives in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  /// Adds a piece of data.
  void update(const void* data, std::size_t bytes);
  /// The checksum of all data so far.
  Digest digest() const;
  /// The checksum as 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  State* state_;
};

/// The checksum of a text, as 32 hexadecimal digits.
std::string text_checksum(std::string_view text);

}  // namespace nystrom
