#include "core/base/printable.h"

#include <fmt/format.h>

#include "core/base/utf8.h"

namespace nystrom {
namespace {

/// Soft hyphen, spaces and joiners of no width, marks of direction, separators of lines and
/// paragraphs, byte order mark.
bool is_invisible(char32_t c) {
  return c == 0xAD || c == 0x34F || c == 0x61C || c == 0x180E || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB);
}

/// Whether the character is a joiner. Between characters beyond ASCII it is spelling, as in Persian
/// and in emoji.
bool is_joiner(char32_t c) { return c == 0x200C || c == 0x200D; }
bool is_beyond_ascii(char byte) { return static_cast<unsigned char>(byte) >= 0x80; }

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string result;
  while (!text.empty()) {
    if (result.size() >= max_bytes) return result + "…";
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = valid_utf8_character(text);
    const bool c1_control =
        lead == 0xc2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || lead < 0x20 || lead == 0x7f || c1_control) {
      result += fmt::format("\\x{:02x}", lead);
      text.remove_prefix(1);
    } else {
      std::size_t next = 0;
      const char32_t c = next_code_point(text, next);
      const bool joins = is_joiner(c) && !result.empty() && is_beyond_ascii(result.back()) &&
                         next < text.size() && is_beyond_ascii(text[next]);
      if (is_invisible(c) && !joins)
        result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
      else
        result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

std::string printable_path(const std::filesystem::path& path) {
  return printable(path.native(), std::string::npos);
}

std::string json_path(const std::filesystem::path& path) {
  return is_valid_utf8(path.native()) ? path.native() : printable_path(path);
}

}  // namespace nystrom
