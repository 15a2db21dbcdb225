// UTF-8: validation and iteration over characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nystrom {

/// The number of bytes at the start of `text` that are valid UTF-8; text.size() if all are.
/// Surrogates, overlong forms and values above U+10FFFF are invalid.
std::size_t valid_utf8_prefix(std::string_view text);
/// Whether all of `text` is valid UTF-8.
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// The number of bytes of the first character of `text`, which is not empty; 0 if it is invalid.
std::size_t valid_utf8_character(std::string_view text);

/// The number of bytes of a character in valid UTF-8 that begins with `lead`.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Whether the byte continues a character.
inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The number of characters in valid UTF-8.
std::size_t count_characters(std::string_view text);

// next_code_point and append_utf8 of a character beyond ASCII.
char32_t next_beyond_ascii(std::string_view text, std::size_t& position);
void append_beyond_ascii(std::string& text, char32_t code_point);

/// The character at `position` of valid UTF-8. Advances `position` behind it.
inline char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte >= 0x80) return next_beyond_ascii(text, position);
  ++position;
  return byte;
}

/// Appends a character.
inline void append_utf8(std::string& text, char32_t code_point) {
  if (code_point < 0x80)
    text += static_cast<char>(code_point);
  else
    append_beyond_ascii(text, code_point);
}

}  // namespace nystrom
