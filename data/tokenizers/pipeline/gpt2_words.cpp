// GPT-2's regular expression for words, by hand.
#include "data/tokenizers/pipeline/pre_tokenizers.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

enum class Kind { letter, number, space, other };

Kind kind_of(char32_t c) {
  if (c < 0x80)
    return is_letter(c)        ? Kind::letter
           : is_number(c)      ? Kind::number
           : is_white_space(c) ? Kind::space
                               : Kind::other;
  if (is_white_space(c)) return Kind::space;
  const std::uint32_t bit = category_bit_of(c);
  return (bit & letter_bits) != 0   ? Kind::letter
         : (bit & number_bits) != 0 ? Kind::number
                                    : Kind::other;
}

/// The end of 's, 't, 're, 've, 'm, 'll or 'd at `begin`; `begin` when it is none of them.
std::size_t end_of_contraction(std::string_view text, std::size_t begin) {
  if (text[begin] != '\'' || begin + 1 >= text.size()) return begin;
  const char first = text[begin + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  if (begin + 2 >= text.size()) return begin;
  const char second = text[begin + 2];
  const bool known = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
  return known ? begin + 3 : begin;
}

std::size_t end_of_run(std::string_view text, std::size_t begin, Kind kind) {
  while (begin < text.size()) {
    std::size_t behind = begin;
    if (kind_of(next_code_point(text, behind)) != kind) break;
    begin = behind;
  }
  return begin;
}

}  // namespace

std::size_t end_of_gpt2_word(std::string_view text, std::size_t begin) {
  if (const std::size_t end = end_of_contraction(text, begin); end > begin) return end;
  std::size_t behind = begin;
  Kind kind = kind_of(next_code_point(text, behind));
  if (text[begin] == ' ' && behind < text.size()) {  // a word may have one space in front
    std::size_t first_end = behind;
    const Kind next = kind_of(next_code_point(text, first_end));
    if (next != Kind::space) {
      kind = next;
      behind = first_end;
    }
  }
  const std::size_t end = end_of_run(text, behind, kind);
  if (kind != Kind::space || end == text.size()) return end;
  // Of white space before a word the last character is left to the word.
  std::size_t last = end - 1;
  while (is_utf8_continuation(text[last])) --last;
  return last > begin ? last : end;
}

}  // namespace nystrom
