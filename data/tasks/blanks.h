// Blank texts.
#pragma once

#include <string_view>

namespace nystrom {

/// `text` without the Unicode white space at its ends. Bytes that are not UTF-8 are no white space.
std::string_view trimmed(std::string_view text);

/// Whether `text` is empty or only white space.
inline bool is_blank(std::string_view text) { return trimmed(text).empty(); }

}  // namespace nystrom
