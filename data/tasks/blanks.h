// Texts of nothing but white space.
#pragma once

#include <string_view>

namespace nystrom {

/// `text` without the white space (Unicode's) at its ends. Bytes that are not UTF-8 are none.
std::string_view trimmed(std::string_view text);

/// Whether there is nothing but white space in `text`.
inline bool is_blank(std::string_view text) { return trimmed(text).empty(); }

}  // namespace nystrom
