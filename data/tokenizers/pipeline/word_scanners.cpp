#include "data/tokenizers/pipeline/word_scanners.h"

#include "core/base/utf8.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

enum class CharacterKind { letter, number, space, other };

CharacterKind kind_of(char32_t c) {
  if (c < 0x80)
    return is_letter(c)        ? CharacterKind::letter
           : is_number(c)      ? CharacterKind::number
           : is_white_space(c) ? CharacterKind::space
                               : CharacterKind::other;
  if (is_white_space(c)) return CharacterKind::space;
  const std::uint32_t bit = category_bit_of(c);
  return (bit & letter_bits) != 0   ? CharacterKind::letter
         : (bit & number_bits) != 0 ? CharacterKind::number
                                    : CharacterKind::other;
}

/// Returns the end of 's, 't, 're, 've, 'm, 'll or 'd at `begin`, or `begin` when none matches.
std::size_t end_of_contraction(std::string_view text, std::size_t begin, bool ignores_case) {
  if (text[begin] != '\'') return begin;
  const auto letter_at = [&](std::size_t i) {
    if (i >= text.size()) return '\0';
    return static_cast<char>(ignores_case ? text[i] | 0x20 : text[i]);
  };
  const char first = letter_at(begin + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  const char second = letter_at(begin + 2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l'))
    return begin + 3;
  constexpr std::string_view long_s = "\xC5\xBF";  // another lower case of S
  return ignores_case && text.substr(begin + 1).starts_with(long_s) ? begin + 3 : begin;
}

std::size_t end_of_run(std::string_view text, std::size_t begin, CharacterKind kind) {
  return end_while(text, begin, [kind](char32_t c) { return kind_of(c) == kind; });
}

/// Matches \s+(?!\S)|\s+ at white space. The last white space before a word is left to that word.
std::size_t end_of_space(std::string_view text, std::size_t begin) {
  const std::size_t end = end_of_run(text, begin, CharacterKind::space);
  if (end == text.size()) return end;
  std::size_t last = end - 1;
  while (is_utf8_continuation(text[last])) --last;
  return last > begin ? last : end;
}

std::size_t end_of_gpt2_word(std::string_view text, std::size_t begin) {
  if (const std::size_t end = end_of_contraction(text, begin, false); end > begin) return end;
  std::size_t behind = begin;
  CharacterKind kind = kind_of(next_code_point(text, behind));
  if (text[begin] == ' ' && behind < text.size()) {  // a word may start with one space
    std::size_t first_end = behind;
    const CharacterKind next = kind_of(next_code_point(text, first_end));
    if (next != CharacterKind::space) {
      kind = next;
      behind = first_end;
    }
  }
  return kind == CharacterKind::space ? end_of_space(text, begin) : end_of_run(text, behind, kind);
}

bool is_line_end(char byte) { return byte == '\r' || byte == '\n'; }

/// Matches \s*[\r\n]+|\s+(?!\S)|\s+ at white space.
std::size_t end_of_lines(std::string_view text, std::size_t begin) {
  const std::size_t end = end_of_run(text, begin, CharacterKind::space);
  for (std::size_t last = end; last > begin; --last)
    if (is_line_end(text[last - 1])) return last;
  return end_of_space(text, begin);
}

template <int max_digits>
std::size_t end_of_llama3_word(std::string_view text, std::size_t begin) {
  if (const std::size_t end = end_of_contraction(text, begin, true); end > begin) return end;
  std::size_t behind = begin;
  const CharacterKind kind = kind_of(next_code_point(text, behind));
  if (kind == CharacterKind::letter) return end_of_run(text, behind, kind);
  if (kind == CharacterKind::number) {
    for (int digits = 1; digits < max_digits && behind < text.size(); ++digits) {
      std::size_t next = behind;
      if (kind_of(next_code_point(text, next)) != CharacterKind::number) break;
      behind = next;
    }
    return behind;
  }
  // One character other than a line end may precede letters. One space may precede symbols, and
  // line ends may follow them.
  std::size_t next_end = behind;
  const CharacterKind next =
      behind < text.size() ? kind_of(next_code_point(text, next_end)) : CharacterKind::space;
  if (next == CharacterKind::letter && !is_line_end(text[begin]))
    return end_of_run(text, next_end, next);
  if (kind == CharacterKind::other || (text[begin] == ' ' && next == CharacterKind::other)) {
    std::size_t end = end_of_run(text, behind, CharacterKind::other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  return end_of_lines(text, begin);
}

}  // namespace

WordScanner find_word_scanner(std::string_view expression) {
  if (expression == gpt2_expression) return end_of_gpt2_word;
  if (expression == llama3_expression) return end_of_llama3_word<3>;
  if (expression == qwen_expression) return end_of_llama3_word<1>;
  return nullptr;
}

}  // namespace nystrom
