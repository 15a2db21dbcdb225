#include "data/tasks/unicode_classes.h"

#include <utf8proc.h>

#include "core/utf8.h"

namespace nystrom {
namespace {

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }

}  // namespace

bool is_unicode_space(char32_t c) {
  const bool control = (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85;
  return control || c == 0x2028 || c == 0x2029 || category(c) == UTF8PROC_CATEGORY_ZS;
}

bool is_unicode_alphanumeric(char32_t c) {
  const auto found = category(c);
  return (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO) ||
         (found >= UTF8PROC_CATEGORY_ND && found <= UTF8PROC_CATEGORY_NO);
}

bool is_unicode_punctuation(char32_t c) {
  const auto found = category(c);
  return found >= UTF8PROC_CATEGORY_PC && found <= UTF8PROC_CATEGORY_SO;
}

std::string unicode_lower(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c == 0x130) {  // the only character whose lower case is two: i and a dot above
      result += "i\xCC\x87";
    } else {
      append_utf8(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return result;
}

}  // namespace nystrom
