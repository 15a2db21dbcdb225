// Valid and invalid SentencePiece models, built byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/protobuf.h"

namespace nystrom::testing {

using protobuf::varint;

inline std::string number_field(int number, std::uint64_t value) {
  return protobuf::integer(number, static_cast<std::int64_t>(value));
}
inline std::string bytes_field(int number, const std::string& bytes) {
  return protobuf::bytes(number, bytes);
}
inline std::string float_field(int number, float value) { return protobuf::number(number, value); }

inline std::string piece(const std::string& text, float score = -1, std::uint64_t type = 1) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, type));
}

/// <unk> and one normal piece: 33 bytes.
inline std::string smallest_model() { return piece("<unk>", 0, 2) + piece("abcd"); }

/// The pieces that ALBERT has, and letters to form words.
inline std::string small_model() {
  std::string bytes = piece("<pad>", 0, 3) + piece("<unk>", 0, 2) + piece("[CLS]", 0, 3) +
                      piece("[SEP]", 0, 3) + piece("[MASK]", 0, 3);
  for (const char* text : {"\xE2\x96\x81", "a", "b", "c", "1", "2", ","}) bytes += piece(text, -4);
  bytes += piece(
               "\xE2\x96\x81"
               "ab",
               -2) +
           piece("bc", -3) + piece("2,", -1);
  return bytes;
}

// ---- Charsmaps ----------------------------------------------------------------------------------
// A trie in units of four bytes, and then strings. The low byte of a unit is the label. A flag
// marks a key, and the offset is above it.

inline constexpr std::uint32_t key_flag = 1u << 8;
inline constexpr std::uint32_t leaf_flag = 1u << 31;
/// For offsets below 2^21.
inline std::uint32_t unit(std::uint32_t offset, std::uint32_t label, bool is_key = false) {
  return offset << 10 | label | (is_key ? key_flag : 0);
}

inline std::string charsmap(const std::vector<std::uint32_t>& units, const std::string& strings) {
  const auto size = static_cast<std::uint32_t>(units.size() * 4);
  std::string bytes(4 + size, '\0');
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes + strings;
}

/// A trie with the single key "A". The children of the root are at 256 ^ byte, and those of "A" at
/// 512.
inline std::vector<std::uint32_t> one_key_trie() {
  std::vector<std::uint32_t> units(768, leaf_flag);  // a leaf flag matches no byte
  units[0] = unit(256, 0);
  units[256 ^ 'A'] = unit((256 ^ 'A') ^ 512, 'A', true);
  units[512] = leaf_flag | 0;
  return units;
}

inline std::string with_charsmap(const std::string& bytes) {
  return smallest_model() + bytes_field(3, bytes_field(2, bytes));
}

}  // namespace nystrom::testing
