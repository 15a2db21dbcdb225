#include "core/base/utf8.h"

#include <algorithm>
#include <cstring>

namespace nystrom {

std::size_t valid_utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    std::uint64_t eight;
    while (position + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + position, sizeof(eight));
      if ((eight & 0x8080808080808080u) != 0) break;
      position += sizeof(eight);
    }
    if (position == text.size()) break;
    const std::size_t length = valid_utf8_character(text.substr(position));
    if (length == 0) return position;
    position += length;
  }
  return position;
}

std::size_t count_characters(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_utf8_continuation));
}

char32_t next_beyond_ascii(std::string_view text, std::size_t& position) {
  const std::size_t length = utf8_length(text[position]);
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  char32_t code_point = byte(0) & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code_point = code_point << 6 | (byte(i) & 0x3F);
  position += length;
  return code_point;
}

void append_beyond_ascii(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) {
    text += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code_point < 0x800) {
    put(0xC0 | code_point >> 6), put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12), put(0x80 | (code_point >> 6 & 0x3F)),
        put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18), put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F)), put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace nystrom
