#include "data/tokenizers/pipeline/pattern_parser.h"

#include <limits>
#include <optional>

#include "core/check.h"
#include "data/tokenizers/pipeline/pattern_sets.h"

namespace nystrom {
namespace {

using Kind = PatternInstruction::Kind;
using Code = std::vector<PatternInstruction>;  // targets count from its own start

constexpr std::uint32_t unlimited = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t max_instructions = 100'000;
constexpr std::uint32_t max_repeats = 1000;

void append(Code& code, Code part) {
  const auto shift = static_cast<std::uint32_t>(code.size());
  for (PatternInstruction& each : part) {
    each.target += shift;
    each.other += shift;
    code.push_back(each);
  }
}

/// Recursive descent; every function returns the code of what it read.
class Parser : private PatternSetReader {
 public:
  Parser(std::string_view expression, const std::string& where)
      : PatternSetReader(expression, where) {}

  PatternProgram run() {
    PatternProgram program;
    program.instructions = alternatives();
    if (!at_end()) fail("an unmatched )");
    program.instructions.emplace_back();
    program.sets = std::move(sets_);
    for (CharacterSet& set : program.sets) set.finish();
    return program;
  }

 private:
  Code alternatives() {
    if (++nesting_ > max_nesting) fail("too many nested groups");
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
      if (code.size() > max_instructions) fail("too many repetitions");
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
    if (code.size() != 1 || code[0].kind != Kind::character)
      fail("a look behind over more than one character");
    code[0].kind = Kind::behind;
    code[0].least = least;
    return code;
  }

  // ---- Repetition -------------------------------------------------------------------------------

  std::optional<std::uint32_t> number() {
    const std::size_t start = position_;
    std::uint32_t value = 0;
    while (!at_end() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(text_[position_++] - '0');
      if (value > max_repeats) fail("too many repetitions");
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
    if (item.size() * (std::size_t{most == unlimited ? least + 1 : most} + 1) > max_instructions)
      fail("too many repetitions");
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

  std::vector<CharacterSet> sets_;
};

}  // namespace

PatternProgram compile_pattern(std::string_view expression, const std::string& where) {
  return Parser(expression, where).run();
}

}  // namespace nystrom
