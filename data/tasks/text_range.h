// Parts of texts.
#pragma once

#include <cstdint>
#include <string_view>

namespace nystrom {

/// A range of bytes in a text.
struct TextRange {
  std::int64_t begin = 0, end = 0;
};

/// The part of `text` in the range.
inline std::string_view text_at(std::string_view text, TextRange range) {
  return text.substr(static_cast<std::size_t>(range.begin),
                     static_cast<std::size_t>(range.end - range.begin));
}

}  // namespace nystrom
