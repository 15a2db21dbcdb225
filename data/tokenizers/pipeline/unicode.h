// Properties of characters that tokenizers need. Most come from utf8proc's tables of Unicode. Some
// come from the older versions in Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <utf8proc.h>

#include "core/base/utf8.h"

namespace nystrom {

inline std::uint32_t category_bit(int category) { return std::uint32_t{1} << category; }
inline std::uint32_t category_bit_of(char32_t c) {
  return category_bit(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
}

inline constexpr std::uint32_t letter_bits =
    1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL | 1u << UTF8PROC_CATEGORY_LT |
    1u << UTF8PROC_CATEGORY_LM | 1u << UTF8PROC_CATEGORY_LO;
inline constexpr std::uint32_t mark_bits =
    1u << UTF8PROC_CATEGORY_MN | 1u << UTF8PROC_CATEGORY_MC | 1u << UTF8PROC_CATEGORY_ME;
inline constexpr std::uint32_t number_bits =
    1u << UTF8PROC_CATEGORY_ND | 1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_NO;
inline constexpr std::uint32_t punctuation_bits =
    1u << UTF8PROC_CATEGORY_PC | 1u << UTF8PROC_CATEGORY_PD | 1u << UTF8PROC_CATEGORY_PS |
    1u << UTF8PROC_CATEGORY_PE | 1u << UTF8PROC_CATEGORY_PI | 1u << UTF8PROC_CATEGORY_PF |
    1u << UTF8PROC_CATEGORY_PO;
inline constexpr std::uint32_t symbol_bits =
    1u << UTF8PROC_CATEGORY_SM | 1u << UTF8PROC_CATEGORY_SC | 1u << UTF8PROC_CATEGORY_SK |
    1u << UTF8PROC_CATEGORY_SO;

// Properties of non-ASCII characters from the older Unicode versions in Hugging Face's tables.
bool is_punctuation_beyond_ascii(char32_t c);
bool is_control_beyond_ascii(char32_t c);
/// General category Mn; BERT's normalizer uses it.
bool is_nonspacing_mark(char32_t c);
/// General category M. Some marks have no combining class.
bool is_mark(char32_t c);
/// Whether the decomposition of `c` is newer than those tables.
bool is_undecomposed(char32_t c);

/// Unicode's property White_Space.
inline bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  if (c < 0x1680) return c == 0x85 || c == 0xA0;
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

inline bool is_letter(char32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  return (category_bit_of(c) & letter_bits) != 0;
}

inline bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return (category_bit_of(c) & number_bits) != 0;
}

inline bool is_ascii_punctuation(char32_t c) {
  return c < 0x80 && ((c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                      (c >= '{' && c <= '~'));
}

/// Unicode's punctuation, and all punctuation and symbols of ASCII.
inline bool is_punctuation(char32_t c) {
  return c < 0x80 ? is_ascii_punctuation(c) : is_punctuation_beyond_ascii(c);
}

/// The class \w of regular expressions: letters, marks, decimal digits, letter numbers, connector
/// punctuation, circled letters and the joiners.
inline bool is_word_character(char32_t c) {
  if (c < 0x80) return is_letter(c) || is_number(c) || c == '_';
  constexpr std::uint32_t bits = letter_bits | mark_bits | 1u << UTF8PROC_CATEGORY_ND |
                                 1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_PC;
  if ((category_bit_of(c) & bits) != 0) return true;
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

inline char32_t lower_case(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

/// Returns the character of UTF-8 that ends at `position`, which is not 0, and moves `position` to
/// its start.
char32_t previous_character(std::string_view text, std::size_t& position);
/// Where the white space before `end` begins.
std::size_t spaces_begin(std::string_view text, std::size_t end);
/// Where the characters from `begin` on end for which is(character) is true.
template <class Is>
std::size_t end_while(std::string_view text, std::size_t begin, const Is& is) {
  while (begin < text.size()) {
    std::size_t behind = begin;
    if (!is(next_code_point(text, behind))) break;
    begin = behind;
  }
  return begin;
}

/// Python's str.lower of UTF-8, except that Σ always becomes σ.
std::string lower_case_text(std::string_view text);

}  // namespace nystrom
