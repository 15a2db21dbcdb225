// Parts of texts.
#pragma once

#include <cstdint>
#include <string_view>

namespace nystrom {

/// A range of bytes in a text.
struct TextRange {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// The part of `text` in the range.
inline std::string_view text_at(std::string_view text, TextRange range) {
  return text.substr(static_cast<std::size_t>(range.begin),
                     static_cast<std::size_t>(range.end - range.begin));
}

/// `text` without the Unicode white space at its ends. Bytes that are not UTF-8 are no white space.
std::string_view trimmed(std::string_view text);

/// Whether `text` is empty or only white space.
inline bool is_blank(std::string_view text) { return trimmed(text).empty(); }

}  // namespace nystrom
