#include "data/tokenizers/pipeline/pattern_sets.h"

#include <array>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

constexpr char32_t last_character = 0x10FFFF;

constexpr std::uint32_t bit(int category) { return std::uint32_t{1} << category; }

struct NamedCategories {
  std::string_view name;
  std::uint32_t bits;
};

constexpr std::array named_categories{
    NamedCategories{"L", letter_bits},
    NamedCategories{"Letter", letter_bits},
    NamedCategories{"Lu", bit(UTF8PROC_CATEGORY_LU)},
    NamedCategories{"Ll", bit(UTF8PROC_CATEGORY_LL)},
    NamedCategories{"Lt", bit(UTF8PROC_CATEGORY_LT)},
    NamedCategories{"Lm", bit(UTF8PROC_CATEGORY_LM)},
    NamedCategories{"Lo", bit(UTF8PROC_CATEGORY_LO)},
    NamedCategories{"M", mark_bits},
    NamedCategories{"Mn", bit(UTF8PROC_CATEGORY_MN)},
    NamedCategories{"Mc", bit(UTF8PROC_CATEGORY_MC)},
    NamedCategories{"Me", bit(UTF8PROC_CATEGORY_ME)},
    NamedCategories{"N", number_bits},
    NamedCategories{"Nd", bit(UTF8PROC_CATEGORY_ND)},
    NamedCategories{"Nl", bit(UTF8PROC_CATEGORY_NL)},
    NamedCategories{"No", bit(UTF8PROC_CATEGORY_NO)},
    NamedCategories{"P", punctuation_bits},
    NamedCategories{"Pc", bit(UTF8PROC_CATEGORY_PC)},
    NamedCategories{"Pd", bit(UTF8PROC_CATEGORY_PD)},
    NamedCategories{"Ps", bit(UTF8PROC_CATEGORY_PS)},
    NamedCategories{"Pe", bit(UTF8PROC_CATEGORY_PE)},
    NamedCategories{"Pi", bit(UTF8PROC_CATEGORY_PI)},
    NamedCategories{"Pf", bit(UTF8PROC_CATEGORY_PF)},
    NamedCategories{"Po", bit(UTF8PROC_CATEGORY_PO)},
    NamedCategories{"S", symbol_bits},
    NamedCategories{"Sm", bit(UTF8PROC_CATEGORY_SM)},
    NamedCategories{"Sc", bit(UTF8PROC_CATEGORY_SC)},
    NamedCategories{"Sk", bit(UTF8PROC_CATEGORY_SK)},
    NamedCategories{"So", bit(UTF8PROC_CATEGORY_SO)},
    NamedCategories{"Z", separator_bits},
    NamedCategories{"Zs", bit(UTF8PROC_CATEGORY_ZS)},
    NamedCategories{"Zl", bit(UTF8PROC_CATEGORY_ZL)},
    NamedCategories{"Zp", bit(UTF8PROC_CATEGORY_ZP)},
    NamedCategories{"C", control_bits | bit(UTF8PROC_CATEGORY_CN)},
    NamedCategories{"Cc", bit(UTF8PROC_CATEGORY_CC)},
    NamedCategories{"Cf", bit(UTF8PROC_CATEGORY_CF)}};

}  // namespace

void PatternSetReader::fail(const std::string& what) const {
  throw InputError(
      fmt::format("{}: the regular expression '{}' holds {} near byte {}, which is not supported",
                  where_, printable(text_), what, position_));
}

bool PatternSetReader::accept(std::string_view expected) {
  if (!text_.substr(position_).starts_with(expected)) return false;
  position_ += expected.size();
  return true;
}

char32_t PatternSetReader::next() {
  if (at_end()) fail("an end too early");
  return next_code_point(text_, position_);
}

char32_t PatternSetReader::hexadecimal(std::size_t digits) {
  char32_t value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char32_t c = next();
    const char32_t lower = c | 0x20;
    if (c >= '0' && c <= '9')
      value = value * 16 + (c - '0');
    else if (lower >= 'a' && lower <= 'f')
      value = value * 16 + (lower - 'a' + 10);
    else
      fail("a character's number that is not hexadecimal");
    if (value > last_character) fail("a character beyond U+10FFFF");
  }
  return value;
}

std::optional<char32_t> PatternSetReader::escaped_character(char32_t c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'a': return '\a';
    case 'e': return 0x1B;
    case 'u': return hexadecimal(4);
    case 'x': {
      if (!accept("{")) return hexadecimal(2);
      const std::size_t end = text_.find('}', position_);
      if (end == text_.npos) fail("a brace that is not closed");
      const char32_t value = hexadecimal(end - position_);
      accept("}");
      return value;
    }
    default: return is_letter(c) || is_number(c) ? std::nullopt : std::optional(c);
  }
}

CharacterSet PatternSetReader::property() {
  if (!accept("{")) fail("a property without braces");
  const bool negated = accept("^");
  const std::size_t end = text_.find('}', position_);
  const std::string_view name = text_.substr(position_, end == text_.npos ? 0 : end - position_);
  for (const NamedCategories& each : named_categories) {
    if (each.name != name) continue;
    position_ = end + 1;
    CharacterSet set = CharacterSet::categories(each.bits);
    return negated ? set.negate() : set;
  }
  fail("a property of characters that is not known");
}

CharacterSet PatternSetReader::escaped_set() {
  const char32_t c = next();
  switch (c) {
    case 's': return CharacterSet::white_space();
    case 'S': return CharacterSet::white_space().negate();
    case 'd': return CharacterSet::categories(bit(UTF8PROC_CATEGORY_ND));
    case 'D': return CharacterSet::categories(bit(UTF8PROC_CATEGORY_ND)).negate();
    case 'w': return CharacterSet::word();
    case 'W': return CharacterSet::word().negate();
    case 'p': return property();
    case 'P': return property().negate();
    default: break;
  }
  const auto character = escaped_character(c);
  if (!character) fail("an escape that is not known");
  return CharacterSet::of(*character);
}

/// A member of a bracket that is one character; nothing for sets, which are added.
std::optional<char32_t> PatternSetReader::member(CharacterSet& set) {
  if (accept("[:")) fail("a POSIX bracket");
  if (accept("&&")) fail("an intersection of sets");
  const char32_t c = next();
  if (c == '[') {
    set.add(bracket());
    return std::nullopt;
  }
  if (c != '\\') return c;
  const std::size_t start = position_;
  const char32_t escaped = next();
  if (std::string_view("sSdDwWpP").find(static_cast<char>(escaped)) != std::string_view::npos &&
      escaped < 0x80) {
    position_ = start;
    set.add(escaped_set());
    return std::nullopt;
  }
  if (escaped == 'b') return '\b';
  const auto character = escaped_character(escaped);
  if (!character) fail("an escape that is not known");
  return character;
}

CharacterSet PatternSetReader::bracket() {
  if (++nesting_ > max_nesting) fail("too many nested sets");
  CharacterSet set;
  const bool negated = accept("^");
  if (accept("]")) set.add(']', ']');
  while (!accept("]")) {
    const auto first = member(set);
    if (!first) continue;
    char32_t last = *first;
    const bool range =
        position_ + 1 < text_.size() && text_[position_] == '-' && text_[position_ + 1] != ']';
    if (range) {
      accept("-");
      const auto second = member(set);
      if (!second) fail("a range that ends in a set");
      last = *second;
      if (last < *first) fail("a range that is the wrong way round");
    }
    set.add(*first, last);
  }
  if (ignores_case_) set.ignore_case();
  --nesting_;
  return negated ? set.negate() : set;
}

}  // namespace nystrom
