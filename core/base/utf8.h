// UTF-8: what is valid, and stepping from character to character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nystrom {

/// Bytes at the start of `text` that are valid UTF-8 (no surrogates, no overlong forms, at most
/// U+10FFFF); text.size() if all are.
std::size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// Bytes of the character that `text`, which is not empty, begins with; 0 when that is not valid.
std::size_t valid_utf8_character(std::string_view text);

/// Bytes of the character that begins with `lead`, in valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Whether the byte goes on with a character begun before it.
inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The character at `position` of valid UTF-8; moves `position` behind it.
char32_t next_code_point(std::string_view text, std::size_t& position);

/// Appends the character.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace nystrom
