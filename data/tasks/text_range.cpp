#include "data/tasks/text_range.h"

#include "core/base/utf8.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

/// The bytes of the white space character at the start of `text`, or 0.
std::size_t leading_blank(std::string_view text) {
  std::size_t after = 0;
  return valid_utf8_character(text) > 0 && is_white_space(next_code_point(text, after)) ? after : 0;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const std::size_t blank = leading_blank(text);
    if (blank == 0) break;
    text.remove_prefix(blank);
  }
  while (!text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && is_utf8_continuation(text[last])) --last;
    const std::size_t blank = leading_blank(text.substr(last));
    if (blank == 0 || blank != text.size() - last) break;
    text.remove_suffix(blank);
  }
  return text;
}

}  // namespace nystrom
