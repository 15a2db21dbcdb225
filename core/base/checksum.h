// XXH3-128, the checksum of all stored files and tensors.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
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
  /// Adds the items of an array, or the bytes of a text.
  template <class Items>
  void add(const Items& items) {
    update(std::data(items), std::size(items) * sizeof(*std::data(items)));
  }
  /// The same behind their number, so that neighbours keep their boundary.
  template <class Items>
  void add_counted(const Items& items) {
    const std::uint64_t count = std::size(items);
    update(&count, sizeof count);
    add(items);
  }
  /// The checksum of all data so far.
  Digest digest() const;
  /// The checksum as 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  State* state_;
};

/// The checksum of the items of an array, or of the bytes of a text.
template <class Items>
Digest checksum_of_items(const Items& items) {
  Checksum checksum;
  checksum.add(items);
  return checksum.digest();
}

/// The checksum of a text, as 32 hexadecimal digits.
std::string text_checksum(std::string_view text);

}  // namespace nystrom
