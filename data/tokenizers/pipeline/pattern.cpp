#include "data/tokenizers/pipeline/pattern.h"

#include <algorithm>
#include <limits>
#include <new>
#include <vector>

#include <oniguruma.h>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr unsigned max_stack_entries = 1u << 22;
constexpr unsigned long first_budget = 1000;  // backtracking steps of a search's first attempt

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

/// Sets Oniguruma's limits. They apply to the whole process and must be set before the first
/// expression.
void initialize() {
  [[maybe_unused]] static const bool once = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    if (onig_initialize(encodings, 1) != ONIG_NORMAL) throw std::bad_alloc();
    onig_set_parse_depth_limit(Pattern::max_depth);
    onig_set_capture_num_limit(Pattern::max_captures);
    return true;
  }();
}

/// Oniguruma's message for an error code. `info` holds the name in question, if there is one.
std::string message_of(int code, OnigErrorInfo info = {ONIG_ENCODING_UTF8, nullptr, nullptr}) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(text, code, &info);
  return printable({reinterpret_cast<const char*>(text), static_cast<std::size_t>(length)});
}

/// [:punct:] in a class as newer versions of Oniguruma and Hugging Face's tokenizers read it: with
/// symbols.
constexpr std::pair<std::string_view, std::string_view> newer_classes[] = {
    {"[:punct:]", R"(\p{P}\p{S})"}, {"[:^punct:]", R"([^\p{P}\p{S}])"}};

/// An expression for this version of Oniguruma, and properties that make it slow and that
/// Oniguruma's own limits do not count.
struct Expression {
  std::string text;
  int nested_looks = 0;        // nesting depth of look-arounds: each level scans the text again
  int calls = 0;               // of groups, as \g<name>: nested calls double the compiled size
  int classes = 0;             // character classes, \w, \p{L}, […]: tens of kilobytes each
  bool has_condition = false;  // (?(…)…): Oniguruma 6.9.8 takes its first branch for all of it
};

bool looks_behind(std::string_view group) {
  return group.starts_with("?<=") || group.starts_with("?<!");
}

bool is_look_around(std::string_view group) {
  return group.starts_with("?=") || group.starts_with("?!") || looks_behind(group);
}

/// The flags of an expression that begins with (?flags) or (?flags:, with the sign behind them;
/// else empty.
std::string_view flags_of(std::string_view expression) {
  if (!expression.starts_with("(?")) return {};
  const std::size_t end = expression.find_first_not_of("imxWDSPCIL-y{gw}", 2);
  const bool flags =
      end != expression.npos && end > 2 && (expression[end] == ')' || expression[end] == ':');
  return flags ? expression.substr(2, end - 1) : std::string_view();
}

Expression examine(std::string_view expression) {
  Expression found;
  std::vector<std::string_view> groups;  // the text behind the parenthesis of each open one
  std::vector<bool> extended = {false};  // for each, and around all: whether # begins a comment
  int looks = 0, brackets = 0;
  for (std::size_t i = 0, length = 1; i < expression.size(); i += length) {
    const std::string_view rest = expression.substr(i);
    const char c = rest[0];
    length = 1;
    if (c == '\\' && rest.size() > 1) {
      length = 2;
      if (rest[1] == 'R' && brackets == 0 && std::ranges::none_of(groups, looks_behind)) {
        // Oniguruma 6.9.8 takes the first branch of \R, CR, for the beginning of each match of a
        // repetition. It looks for none behind an empty look-ahead.
        found.text += R"((?:(?=)\R))";
        continue;
      }
      if (rest[1] == 'g') ++found.calls;
      if (std::string_view("dDhHpPsSwW").find(rest[1]) != std::string_view::npos) ++found.classes;
    } else if (c == '[') {
      ++found.classes;
      const auto newer = std::ranges::find_if(newer_classes, [&](const auto& each) {
        return brackets > 0 && rest.starts_with(each.first);
      });
      if (newer != std::end(newer_classes)) {
        found.text += newer->second;
        length = newer->first.size();
        continue;
      }
      ++brackets;
      if (rest.starts_with("[^")) ++length;
      if (rest.substr(length).starts_with(']')) ++length;   // a member
    } else if (brackets == 0 && rest.starts_with("(?#")) {  // a comment
      length = std::min(rest.find(')'), rest.size() - 1) + 1;
    } else if (brackets == 0 && c == '#' && extended.back()) {
      length = std::min(rest.find('\n'), rest.size() - 1) + 1;
    } else if (const auto flags = flags_of(rest); brackets == 0 && !flags.empty()) {
      // (?x) holds to the end of the group around it, and (?x:…) to its own.
      const bool own = flags.back() == ':';
      if (own) groups.push_back(rest.substr(1));
      if (own) extended.push_back(extended.back());
      if (const std::size_t x = flags.find('x'); x != flags.npos)
        extended.back() = flags.find('-') > x;
      length = flags.size() + 2;
    } else if (c == ']') {
      brackets = std::max(brackets - 1, 0);
    } else if (brackets == 0 && c == '(') {
      groups.push_back(rest.substr(1));
      extended.push_back(extended.back());
      found.has_condition |= rest.starts_with("(?(");
      looks += is_look_around(groups.back()) ? 1 : 0;
      found.nested_looks = std::max(found.nested_looks, looks);
    } else if (brackets == 0 && c == ')' && !groups.empty()) {
      looks -= is_look_around(groups.back()) ? 1 : 0;
      groups.pop_back();
      extended.pop_back();
    }
    found.text += rest.substr(0, length);
  }
  return found;
}

bool is_out_of_steps(int result) {
  return result == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER ||
         result == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

/// Searches in one text with a common budget of backtracking steps.
class Searches {
 public:
  Searches(OnigRegex regex, std::string_view text)
      : regex_(regex),
        text_(text),
        steps_left_(10'000'000 + 1000 * text.size()),
        region_(onig_region_new()),
        limits_(onig_new_match_param()) {
    if (region_ == nullptr || limits_ == nullptr) throw std::bad_alloc();
    onig_initialize_match_param(limits_.get());
    onig_set_match_stack_limit_size_of_match_param(limits_.get(), max_stack_entries);
  }

  /// Oniguruma's result for the first match at or after `start`. It does not report the number of
  /// steps of a search. The first attempt gets few steps and later attempts get more. Each later
  /// attempt is charged with its whole budget, so the first thousand steps of each match are free.
  int search(std::size_t start) {
    unsigned long budget = first_budget;
    int result = attempt(start, budget);
    while (is_out_of_steps(result) && steps_left_ > 0) {
      budget = std::min(8 * budget, steps_left_);
      steps_left_ -= budget;
      result = attempt(start, budget);
    }
    return result;
  }

  ByteRange match() const {
    return {static_cast<std::uint32_t>(region_->beg[0]),
            static_cast<std::uint32_t>(region_->end[0])};
  }

 private:
  struct Free {
    void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
    void operator()(OnigMatchParam* limits) const { onig_free_match_param(limits); }
  };

  int attempt(std::size_t start, unsigned long budget) {
    onig_set_retry_limit_in_match_of_match_param(limits_.get(), budget);
    onig_set_retry_limit_in_search_of_match_param(limits_.get(), budget);
    const OnigUChar* begin = bytes_of(text_);
    const OnigUChar* end = begin + text_.size();
    return onig_search_with_param(regex_, begin, end, begin + start, end, region_.get(),
                                  ONIG_OPTION_NONE, limits_.get());
  }

  OnigRegex regex_;
  std::string_view text_;
  unsigned long steps_left_;
  std::unique_ptr<OnigRegion, Free> region_;
  std::unique_ptr<OnigMatchParam, Free> limits_;
};

}  // namespace

void Pattern::Free::operator()(re_pattern_buffer* regex) const { onig_free(regex); }

Pattern::Pattern(std::string_view expression, const std::string& where)
    : expression_(printable(expression)), where_(where) {
  require_input(expression.size() <= max_bytes,
                "{}: the regular expression has {} bytes, expected at most {}", where,
                expression.size(), max_bytes);
  const Expression read = examine(expression);
  require_input(read.nested_looks <= max_nested_looks,
                "{}: the regular expression '{}' has {} look-arounds one inside another, expected "
                "at most {}",
                where, expression_, read.nested_looks, max_nested_looks);
  require_input(read.calls <= max_calls,
                "{}: the regular expression '{}' calls groups {} times, expected at most {} calls",
                where, expression_, read.calls, max_calls);
  require_input(read.classes <= max_classes,
                "{}: the regular expression '{}' has {} classes of characters, expected at most {}",
                where, expression_, read.classes, max_classes);
  require_input(!read.has_condition,
                "{}: the regular expression '{}' has a condition, (?(…)…), which versions of "
                "Oniguruma match differently; write its branches as (?:…|…)",
                where, expression_);
  initialize();
  OnigRegex regex = nullptr;
  OnigErrorInfo info{};
  const OnigUChar* begin = bytes_of(read.text);
  const int result = onig_new(&regex, begin, begin + read.text.size(), ONIG_OPTION_NONE,
                              ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  if (result == ONIGERR_MEMORY) throw std::bad_alloc();
  if (result != ONIG_NORMAL)
    throw InputError(fmt::format("{}: the regular expression '{}' is invalid: {}", where,
                                 expression_, message_of(result, info)));
  regex_.reset(regex);
}

std::vector<ByteRange> Pattern::find_all(std::string_view text) const {
  std::vector<ByteRange> found;
  if (text.empty()) return found;
  require_input(text.size() <= std::numeric_limits<int>::max(),
                "{}: a text of {} bytes for the regular expression '{}', expected at most {}",
                where_, text.size(), expression_, std::numeric_limits<int>::max());
  Searches searches(regex_.get(), text);
  std::size_t start = 0;
  while (start <= text.size()) {
    const int result = searches.search(start);
    if (result == ONIG_MISMATCH) break;
    if (result < 0)
      throw InputError(
          fmt::format("{}: the regular expression '{}' fails in a text of {} bytes: {}; expected "
                      "one that backtracks less, such as without repetitions inside repetitions",
                      where_, expression_, text.size(), message_of(result)));
    const ByteRange match = searches.match();
    const std::uint32_t last_end = found.empty() ? 0 : found.back().end;
    require_input(match.begin >= last_end,
                  "{}: a match of the regular expression '{}' begins at byte {}, inside the match "
                  "before, which ends at byte {}; expected no \\K in a look-behind",
                  where_, expression_, match.begin, last_end);
    start = match.end;
    if (match.size() > 0 || found.empty() || match.end != last_end)
      found.push_back(match);
    else
      start += start < text.size() ? utf8_length(text[start]) : 1;
  }
  return found;
}

Matcher read_matcher(const JsonPart& part) {
  const auto text = part.find("String");
  if (text && !text->text().empty())
    return [searched = text->text()](std::string_view all) { return places_of(all, searched); };
  const JsonPart expression = text ? *text : part["Regex"];
  const auto compiled = std::make_shared<Pattern>(expression.text(), expression.where());
  return [compiled](std::string_view all) { return compiled->find_all(all); };
}

}  // namespace nystrom
