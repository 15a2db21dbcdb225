#include "data/tokenizers/pattern_parser.h"

#include <array>
#include <limits>
#include <optional>

#include "core/check.h"
#include "core/json.h"
#include "core/utf8.h"
#include "data/tokenizers/unicode.h"

namespace nystrom {
namespace {

using Kind = PatternInstruction::Kind;
using Code = std::vector<PatternInstruction>;  // targets count from its own start

constexpr std::uint32_t unlimited = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t most_instructions = 100'000;
constexpr std::uint32_t most_repeats = 1000;
constexpr int most_nesting = 50;
constexpr char32_t last_character = 0x10FFFF;

struct NamedCategories {
  std::string_view name;
  std::uint32_t bits;
};

constexpr std::uint32_t bit(int category) { return std::uint32_t{1} << category; }

constexpr std::array named_categories{NamedCategories{"L", letter_bits},
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

void append(Code& code, Code part) {
  const auto shift = static_cast<std::uint32_t>(code.size());
  for (PatternInstruction& each : part) {
    each.target += shift;
    each.other += shift;
    code.push_back(each);
  }
}

/// Recursive descent; every function returns the code of what it read.
class Parser {
 public:
  Parser(std::string_view expression, const std::string& where) : text_(expression), where_(where) {}

  PatternProgram run() {
    PatternProgram program;
    program.instructions = alternatives();
    if (position_ < text_.size()) fail("an unmatched )");
    program.instructions.emplace_back();
    program.sets = std::move(sets_);
    for (CharacterSet& set : program.sets) set.finish();
    return program;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: the regular expression '{}' holds {} near byte {}, which is not supported", where_, printable(text_),
                                 what, position_));
  }

  bool at_end() const { return position_ >= text_.size(); }
  bool accept(std::string_view expected) {
    if (!text_.substr(position_).starts_with(expected)) return false;
    position_ += expected.size();
    return true;
  }
  char32_t next() {
    if (at_end()) fail("an end too early");
    return next_code_point(text_, position_);
  }

  Code alternatives() {
    if (++nesting_ > most_nesting) fail("too many nested groups");
    const bool ignores_case = ignores_case_;  // (?i) holds to the end of its group
    Code code = sequence();
    while (accept("|")) {
      const Code second = sequence();
      Code both(1);
      both[0].kind = Kind::branch;
      both[0].target = 1;
      both[0].other = static_cast<std::uint32_t>(code.size() + 2);
      append(both, std::move(code));
      PatternInstruction jump;
      jump.kind = Kind::jump;
      jump.target = static_cast<std::uint32_t>(both.size() + 1 + second.size());
      both.push_back(jump);
      append(both, second);
      code = std::move(both);
    }
    ignores_case_ = ignores_case;
    --nesting_;
    return code;
  }

  Code sequence() {
    Code code;
    while (!at_end() && text_[position_] != '|' && text_[position_] != ')') {
      Code item = quantified(atom());
      append(code, std::move(item));
      if (code.size() > most_instructions) fail("too many repetitions");
    }
    return code;
  }

  Code of_set(CharacterSet set) {
    if (ignores_case_) set.ignore_case();
    Code code(1);
    code[0].kind = Kind::character;
    code[0].set = static_cast<std::uint32_t>(sets_.size());
    sets_.push_back(std::move(set));
    return code;
  }

  static Code of_kind(Kind kind, std::uint32_t least = 1) {
    Code code(1);
    code[0].kind = kind;
    code[0].least = least;
    return code;
  }

  Code atom() {
    const char32_t c = next();
    switch (c) {
      case '(': return group();
      case '[': return of_set(bracket());
      case '.': return of_set(CharacterSet::of('\n').negate());
      case '^': return of_kind(Kind::line_begin);
      case '$': return of_kind(Kind::line_end);
      case '*':
      case '+':
      case '?': fail("a repetition of nothing");
      case '\\': return escape();
      default: return of_set(CharacterSet::of(c));
    }
  }

  Code escape() {
    if (accept("A")) return of_kind(Kind::text_begin);
    if (accept("z")) return of_kind(Kind::text_end, 0);
    if (accept("Z")) return of_kind(Kind::text_end);
    if (accept("b")) return of_kind(Kind::word_edge);
    if (accept("B")) return of_kind(Kind::word_edge, 0);
    return of_set(escaped_set());
  }

  Code group() {
    if (accept("?=")) return inside(Kind::ahead, 1);
    if (accept("?!")) return inside(Kind::ahead, 0);
    if (accept("?>")) return inside(Kind::atomic, 1);
    if (accept("?<=")) return behind(1);
    if (accept("?<!")) return behind(0);
    const bool ignores_case = ignores_case_;
    if (accept("?i)")) {
      ignores_case_ = true;
      return {};
    }
    if (accept("?i:"))
      ignores_case_ = true;
    else if (!accept("?:") && accept("?"))
      fail("a group of a kind that is not known");
    Code code = alternatives();
    close();
    ignores_case_ = ignores_case;
    return code;
  }

  void close() {
    if (!accept(")")) fail("a group that is not closed");
  }

  Code inside(Kind kind, std::uint32_t least) {
    Code part = alternatives();
    close();
    return wrapped(kind, least, std::move(part));
  }

  static Code wrapped(Kind kind, std::uint32_t least, Code part) {
    Code code = of_kind(kind, least);
    part.emplace_back();
    append(code, std::move(part));
    code[0].target = static_cast<std::uint32_t>(code.size());
    return code;
  }

  Code behind(std::uint32_t least) {
    Code code = alternatives();
    close();
    if (code.size() != 1 || code[0].kind != Kind::character) fail("a look behind over more than one character");
    code[0].kind = Kind::behind;
    code[0].least = least;
    return code;
  }

  // ---- Repetition -----------------------------------------------------------------------------------------------------------------

  std::optional<std::uint32_t> number() {
    const std::size_t start = position_;
    std::uint32_t value = 0;
    while (!at_end() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(text_[position_++] - '0');
      if (value > most_repeats) fail("too many repetitions");
    }
    return position_ > start ? std::optional(value) : std::nullopt;
  }

  bool bounds(std::uint32_t& least, std::uint32_t& most) {
    if (accept("*")) return least = 0, most = unlimited, true;
    if (accept("+")) return least = 1, most = unlimited, true;
    if (accept("?")) return least = 0, most = 1, true;
    const std::size_t start = position_;
    if (!accept("{")) return false;
    const auto first = number();
    const bool comma = accept(",");
    const auto second = comma ? number() : first;
    if (!accept("}") || (!first && !second)) {
      position_ = start;  // a brace like other characters
      return false;
    }
    least = first.value_or(0);
    most = second.value_or(unlimited);
    if (least > most) fail("a repetition whose bounds are the wrong way round");
    return true;
  }

  Code quantified(Code item) {
    std::uint32_t least = 1, most = 1;
    while (!at_end()) {
      const std::size_t start = position_;
      if (!bounds(least, most)) return item;
      const bool braces = text_[start] == '{';
      const bool lazy = accept("?");
      const bool possessive = !braces && !lazy && accept("+");
      item = repeated(std::move(item), least, most, lazy, possessive);
    }
    return item;
  }

  Code repeated(Code item, std::uint32_t least, std::uint32_t most, bool lazy, bool possessive) {
    if (item.size() == 1 && item[0].kind == Kind::character && !lazy) {
      item[0].kind = possessive ? Kind::repeat_all : Kind::repeat;
      item[0].least = least;
      item[0].most = most;
      return item;
    }
    if (item.size() * (std::size_t{most == unlimited ? least + 1 : most} + 1) > most_instructions) fail("too many repetitions");
    Code code;
    for (std::uint32_t i = 0; i < least; ++i) append(code, item);
    if (most == unlimited) {
      if (may_be_empty(item)) fail("a repetition of what may be empty");
      append(code, loop(item, lazy));
    } else {
      for (std::uint32_t i = least; i < most; ++i) {
        // The rest of the repetitions is skipped by jumping behind all of them.
        Code part = branch_over(item, (most - i) * (item.size() + 1), lazy);
        append(code, std::move(part));
      }
    }
    return possessive ? wrapped(Kind::atomic, 1, std::move(code)) : code;
  }

  static Code branch_over(const Code& item, std::size_t length, bool lazy) {
    Code code(1);
    code[0].kind = Kind::branch;
    const std::uint32_t inside = 1, behind = static_cast<std::uint32_t>(length);
    code[0].target = lazy ? behind : inside;
    code[0].other = lazy ? inside : behind;
    append(code, item);
    return code;
  }

  static Code loop(const Code& item, bool lazy) {
    Code code = branch_over(item, item.size() + 2, lazy);
    PatternInstruction jump;
    jump.kind = Kind::jump;
    code.push_back(jump);
    return code;
  }

  /// Whether a way leads to the end of `code` without a character.
  static bool may_be_empty(const Code& code) {
    std::vector<bool> reached(code.size() + 1, false);
    std::vector<std::size_t> open{0};
    const auto reach = [&](std::size_t i) {
      if (!reached[i]) reached[i] = true, open.push_back(i);
    };
    reached[0] = true;
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (i == code.size()) return true;
      const PatternInstruction& each = code[i];
      switch (each.kind) {
        case Kind::character: break;
        case Kind::repeat:
        case Kind::repeat_all:
          if (each.least == 0) reach(i + 1);
          break;
        case Kind::jump: reach(each.target); break;
        case Kind::branch:
          reach(each.target);
          reach(each.other);
          break;
        case Kind::ahead:
        case Kind::atomic: reach(each.target); break;
        case Kind::end: break;
        default: reach(i + 1);
      }
    }
    return false;
  }

  // ---- Sets -----------------------------------------------------------------------------------------------------------------------

  char32_t hexadecimal(std::size_t digits) {
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

  std::optional<char32_t> escaped_character(char32_t c) {
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

  CharacterSet property() {
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

  /// Behind a backslash.
  CharacterSet escaped_set() {
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
  std::optional<char32_t> member(CharacterSet& set) {
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
    if (std::string_view("sSdDwWpP").find(static_cast<char>(escaped)) != std::string_view::npos && escaped < 0x80) {
      position_ = start;
      set.add(escaped_set());
      return std::nullopt;
    }
    if (escaped == 'b') return '\b';
    const auto character = escaped_character(escaped);
    if (!character) fail("an escape that is not known");
    return character;
  }

  CharacterSet bracket() {
    if (++nesting_ > most_nesting) fail("too many nested sets");
    CharacterSet set;
    const bool negated = accept("^");
    if (accept("]")) set.add(']', ']');
    while (!accept("]")) {
      const auto first = member(set);
      if (!first) continue;
      char32_t last = *first;
      const bool range = position_ + 1 < text_.size() && text_[position_] == '-' && text_[position_ + 1] != ']';
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

  std::string_view text_;
  const std::string& where_;
  std::size_t position_ = 0;
  int nesting_ = 0;
  bool ignores_case_ = false;
  std::vector<CharacterSet> sets_;
};

}  // namespace

PatternProgram compile_pattern(std::string_view expression, const std::string& where) { return Parser(expression, where).run(); }

}  // namespace nystrom
