#include "data/tokenizers/pipeline/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace nystrom {
namespace {

struct CharacterRange {
  char32_t first, last;
};

#include "data/tokenizers/pipeline/unicode_tables.inc"

bool is_in(std::span<const CharacterRange> ranges, char32_t c) {
  const auto above =
      std::upper_bound(ranges.begin(), ranges.end(), c,
                       [](char32_t a, const CharacterRange& b) { return a < b.first; });
  return above != ranges.begin() && c <= std::prev(above)->last;
}

}  // namespace

bool is_punctuation_beyond_ascii(char32_t c) { return is_in(punctuation, c); }
bool is_control_beyond_ascii(char32_t c) { return is_in(controls, c); }
bool is_nonspacing_mark(char32_t c) { return is_in(nonspacing_marks, c); }
bool is_mark(char32_t c) { return is_in(marks, c); }
bool is_undecomposed(char32_t c) { return is_in(undecomposed, c); }

char32_t previous_character(std::string_view text, std::size_t& position) {
  do --position;
  while (is_utf8_continuation(text[position]));
  std::size_t start = position;
  return next_code_point(text, start);
}

std::size_t spaces_begin(std::string_view text, std::size_t end) {
  while (end > 0) {
    std::size_t before = end;
    if (!is_white_space(previous_character(text, before))) break;
    end = before;
  }
  return end;
}

std::string lower_case_text(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    append_utf8(result, lower_case(c == 0x130 ? 'i' : c));
    if (c == 0x130) append_utf8(result, 0x307);  // only İ becomes two characters: i and a dot above
  }
  return result;
}

}  // namespace nystrom
