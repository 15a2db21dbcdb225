#include "data/tasks/word_cut.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_number(c); }

bool is_sign(char32_t c) { return (category_bit_of(c) & (punctuation_bits | symbol_bits)) != 0; }

/// Whether the script of a letter or mark has no spaces between words.
bool is_without_spaces(char32_t c) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0x0E01, 0x0E3A}, {0x0E40, 0x0E4E},  // Thai
      {0x0E80, 0x0ECF}, {0x0F40, 0x0FBC},  // Lao, Tibetan
      {0x1000, 0x103F}, {0x1050, 0x109F},  // Myanmar
      {0x1780, 0x17D3},                    // Khmer
      {0x3005, 0x3007}, {0x3041, 0x3096}, {0x309D, 0x309F}, {0x30A1, 0x30FA}, {0x30FC, 0x30FF},
      {0x31F0, 0x31FF},  // Kana
      {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0xFF66, 0xFF9F}, {0x20000, 0x3FFFF}};
  return std::ranges::any_of(
      ranges, [c](const auto& range) { return range.first <= c && c <= range.second; });
}

/// Whether a character belongs to the one before it, and makes no word of its own: combining marks,
/// and what follows the first sign of an emoji, such as skin tones and the second half of a flag.
class Attachments {
 public:
  bool attaches(char32_t c) {
    constexpr char32_t joiner = 0x200D;
    const bool regional = 0x1F1E6 <= c && c <= 0x1F1FF;
    regionals_ = regional ? regionals_ + 1 : 0;
    const bool skin_tone = 0x1F3FB <= c && c <= 0x1F3FF;
    const bool joined = std::exchange(joins_, c == joiner);
    return joined || c == joiner || skin_tone || (regional && regionals_ % 2 == 0) ||
           (category_bit_of(c) & mark_bits) != 0;
  }

 private:
  bool joins_ = false;  // the last character was a joiner
  int regionals_ = 0;   // regional indicators in a row, two of which are a flag
};

/// The number of characters of a text that are no combining marks.
std::int64_t characters_of(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < text.size();)
    count += (category_bit_of(next_code_point(text, i)) & mark_bits) == 0;
  return count;
}

/// The most characters without a space between them in a script that has none.
std::int64_t longest_run(std::string_view text) {
  std::int64_t longest = 0, run = 0;
  for (std::size_t i = 0; i < text.size();) {
    run = is_without_spaces(next_code_point(text, i)) ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

/// The bytes of the white space character at the start of `text`, or 0.
std::size_t leading_blank(std::string_view text) {
  std::size_t after = 0;
  return valid_utf8_character(text) > 0 && is_white_space(next_code_point(text, after)) ? after : 0;
}

}  // namespace

std::vector<TextRange> split_words(std::string_view text, WordCut cut) {
  std::vector<TextRange> words;
  bool open = false;  // whether the last word may continue
  char32_t before = ' ';
  Attachments attachments;
  for (std::size_t i = 0; i < text.size();) {
    const auto begin = static_cast<std::int64_t>(i);
    const char32_t c = next_code_point(text, i);
    const auto end = static_cast<std::int64_t>(i);
    char32_t after = ' ';
    if (std::size_t next = i; next < text.size()) after = next_code_point(text, next);
    const bool joins = (c == '-' || c == '\'' || c == '.' || c == ',' || c == 0x2019) &&
                       is_alphanumeric(before) && is_alphanumeric(after);
    const bool attaches = attachments.attaches(c);
    const bool alone =
        cut != WordCut::spaces && ((is_sign(c) && !joins) || cut == WordCut::characters ||
                                   (cut == WordCut::ideographs && is_without_spaces(c)));
    const bool follows = !words.empty() && words.back().end == begin;
    if (is_white_space(c)) {
      open = false;
    } else if ((open && !alone) || (attaches && follows)) {
      words.back().end = end;
    } else {
      words.push_back({begin, end});
      open = !alone;
    }
    before = c;
  }
  return words;
}

std::vector<std::string> words_of(std::string_view text, WordCut cut, const std::string& place) {
  constexpr std::int64_t long_word = 8, long_text = 4;
  if (cut == WordCut::words) {
    const bool spaces = text.find_first_of(" \t\n") != text.npos;
    require_input(longest_run(text) <= (spaces ? long_word : long_text),
                  "{}: its words are not separated, and the model was trained on words that are; "
                  "put spaces between them",
                  place);
  }
  std::vector<std::string> words;
  for (const TextRange& word : split_words(text, cut)) words.emplace_back(text_at(text, word));
  return words;
}

bool touch(std::string_view word, std::string_view next) {
  char32_t last = ' ';
  for (std::size_t i = 0; i < word.size();) last = next_code_point(word, i);
  std::size_t end = 0;
  return !next.empty() && is_without_spaces(last) && is_without_spaces(next_code_point(next, end));
}

WordCut word_cut_of(const TaskConfig& task) { return task.word_cut.value_or(WordCut::ideographs); }

void WordCutFinder::add(std::string_view word) {
  if (word.empty() || !is_valid_utf8(word)) return;
  std::size_t first_end = 0;
  const char32_t first = next_code_point(word, first_end);
  const bool one = characters_of(word) <= 1;
  if (is_sign(first) && one) {
    ++marks_alone_;
  } else if (is_without_spaces(first)) {
    ++(one ? ideographs_ : ideograph_words_);
  } else if (is_alphanumeric(first)) {
    ++(one ? letters_ : letter_words_);
    const std::vector<TextRange> parts = split_words(word, WordCut::words);
    std::size_t at = 0;
    marks_attached_ +=
        parts.size() > 1 && is_sign(next_code_point(text_at(word, parts.back()), at));
  }
}

WordCut WordCutFinder::cut() const {
  constexpr std::int64_t enough = 20, some = 5, nearly_all = 9;
  if (marks_attached_ >= some && marks_attached_ > marks_alone_) return WordCut::spaces;
  if (ideographs_ < nearly_all * ideograph_words_) return WordCut::words;
  if (letters_ >= enough && letters_ >= nearly_all * letter_words_) return WordCut::characters;
  return WordCut::ideographs;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const std::size_t blank = leading_blank(text);
    if (blank == 0) break;
    text.remove_prefix(blank);
  }
  while (!text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && is_utf8_continuation(text[last])) --last;
    const std::size_t blank = leading_blank(text.substr(last));
    if (blank == 0 || blank != text.size() - last) break;
    text.remove_suffix(blank);
  }
  return text;
}

}  // namespace nystrom
