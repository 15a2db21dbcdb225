// Kinds of characters, as Python's str methods and regular expressions tell them apart: what reference metrics are defined by.
#pragma once

#include <string>
#include <string_view>

namespace nystrom {

/// str.isspace
bool is_unicode_space(char32_t character);
/// str.isalnum: letters and numbers; no marks, no underscore
bool is_unicode_alphanumeric(char32_t character);
/// Punctuation and symbols.
bool is_unicode_punctuation(char32_t character);
/// str.lower of valid UTF-8, but that Σ is σ everywhere.
std::string unicode_lower(std::string_view text);

}  // namespace nystrom
