// Letters of ASCII, whatever the locale.
#pragma once

#include <algorithm>
#include <string>

namespace nystrom {

/// The small letter of a capital A to Z; any other character as it is.
constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// The text with small letters for A to Z; bytes of other characters stay.
inline std::string ascii_lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return ascii_lower(c); });
  return text;
}

}  // namespace nystrom
