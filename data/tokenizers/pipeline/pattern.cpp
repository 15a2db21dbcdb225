#include "data/tokenizers/pipeline/pattern.h"

#include <algorithm>
#include <optional>

#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/pattern_parser.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

/// Runs a program by backtracking, with a stack of its own.
class Matcher {
 public:
  Matcher(const PatternProgram& program, std::string_view text, const std::string& where)
      : program_(program), text_(text), where_(where) {
    // Tokenizers' expressions take a few steps a character.
    steps_left_ = std::size_t{10'000'000} + 1000 * text.size();
  }

  /// The end of a match of the instructions from `first` on that begins at `start`.
  std::optional<std::size_t> match(std::size_t first, std::size_t start) {
    const std::size_t bottom = stack_.size();
    std::size_t at = first, position = start;
    while (true) {
      const Outcome outcome = step(at, position);
      if (outcome == Outcome::matched) {
        stack_.resize(bottom);
        return position;
      }
      if (outcome == Outcome::failed && !backtrack(bottom, at, position)) return std::nullopt;
    }
  }

 private:
  enum class Outcome { going_on, failed, matched };

  /// A place to go on from: at `position`, or for a repeated character at any character boundary
  /// down to `lowest`.
  struct Choice {
    std::size_t at, position, lowest;
  };

  bool backtrack(std::size_t bottom, std::size_t& at, std::size_t& position) {
    if (stack_.size() == bottom) return false;
    Choice& top = stack_.back();
    at = top.at;
    position = top.position;
    if (top.position <= top.lowest) {
      stack_.pop_back();
    } else {
      do --top.position;
      while (is_utf8_continuation(text_[top.position]));
    }
    return true;
  }

  bool passes(const CharacterSet& set, std::size_t& position) const {
    if (position >= text_.size()) return false;
    std::size_t next = position;
    if (!set.contains(next_code_point(text_, next))) return false;
    position = next;
    return true;
  }

  char32_t before(std::size_t position) const {
    do --position;
    while (position > 0 && is_utf8_continuation(text_[position]));
    return next_code_point(text_, position);
  }

  bool is_word_at(std::size_t position) const {
    return position < text_.size() && is_word_character(next_code_point(text_, position));
  }

  Outcome repeat(const PatternInstruction& now, std::size_t& at, std::size_t& position) {
    const CharacterSet& set = program_.sets[now.set];
    std::size_t lowest = position;
    std::uint32_t count = 0;
    while (count < now.most && passes(set, position)) {
      if (++count <= now.least) lowest = position;
      spend();
    }
    if (count < now.least) return Outcome::failed;
    ++at;
    if (position > lowest && now.kind == PatternInstruction::Kind::repeat) {
      std::size_t shorter = position;
      do --shorter;
      while (is_utf8_continuation(text_[shorter]));
      stack_.push_back({at, shorter, lowest});
    }
    return Outcome::going_on;
  }

  bool holds(const PatternInstruction& now, std::size_t position) const {
    using Kind = PatternInstruction::Kind;
    switch (now.kind) {
      case Kind::line_begin: return position == 0 || text_[position - 1] == '\n';
      case Kind::line_end: return position == text_.size() || text_[position] == '\n';
      case Kind::text_begin: return position == 0;
      case Kind::text_end:
        return position == text_.size() ||
               (now.least == 1 && position + 1 == text_.size() && text_[position] == '\n');
      case Kind::word_edge:
        return ((position > 0 && is_word_character(before(position))) != is_word_at(position)) ==
               (now.least == 1);
      default:
        return (position > 0 && program_.sets[now.set].contains(before(position))) ==
               (now.least == 1);  // behind
    }
  }

  Outcome step(std::size_t& at, std::size_t& position) {
    using Kind = PatternInstruction::Kind;
    spend();
    const PatternInstruction& now = program_.instructions[at];
    switch (now.kind) {
      case Kind::end: return Outcome::matched;
      case Kind::character:
        return passes(program_.sets[now.set], position) ? (++at, Outcome::going_on)
                                                        : Outcome::failed;
      case Kind::repeat:
      case Kind::repeat_all: return repeat(now, at, position);
      case Kind::jump: at = now.target; return Outcome::going_on;
      case Kind::branch:
        stack_.push_back({now.other, position, position});
        at = now.target;
        return Outcome::going_on;
      case Kind::ahead:
      case Kind::atomic: {
        const auto end = match(at + 1, position);
        if (end.has_value() != (now.least == 1)) return Outcome::failed;
        if (now.kind == Kind::atomic) position = *end;
        at = now.target;
        return Outcome::going_on;
      }
      default: return holds(now, position) ? (++at, Outcome::going_on) : Outcome::failed;
    }
  }

  void spend() {
    require_input(steps_left_-- > 0 && stack_.size() < (std::size_t{1} << 24),
                  "{}: the regular expression takes too long", where_);
  }

  const PatternProgram& program_;
  std::string_view text_;
  const std::string& where_;
  std::vector<Choice> stack_;
  std::size_t steps_left_;
};

}  // namespace

struct Pattern::Program : PatternProgram {};

Pattern::Pattern(std::string_view expression, const std::string& where)
    : program_(std::make_unique<Program>(Program{compile_pattern(expression, where)})),
      where_(where) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

std::vector<ByteRange> Pattern::find_all(std::string_view text) const {
  std::vector<ByteRange> found;
  Matcher matcher(*program_, text, where_);
  // Most expressions tell by their first instruction where no match can begin.
  const PatternInstruction& first = program_->instructions[0];
  const bool begins = first.kind == PatternInstruction::Kind::character ||
                      (first.kind == PatternInstruction::Kind::repeat && first.least > 0);
  const CharacterSet* beginnings = begins ? &program_->sets[first.set] : nullptr;
  std::size_t start = 0;
  while (start <= text.size()) {
    if (beginnings != nullptr && start < text.size()) {
      std::size_t behind = start;
      if (!beginnings->contains(next_code_point(text, behind))) {
        start = behind;
        continue;
      }
    }
    const auto end = matcher.match(0, start);
    if (end) found.push_back({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(*end)});
    if (end && *end > start)
      start = *end;
    else
      start += start < text.size() ? utf8_length(text[start]) : 1;
  }
  return found;
}

}  // namespace nystrom
