// Comparison of answers as in SQuAD's evaluation script.
#include <algorithm>
#include <map>

#include "core/base/utf8.h"
#include "data/tasks/task_metrics.h"
#include "data/text/words.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

/// Python's str.isspace.
bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

}  // namespace

std::string normalize_answer(std::string_view text) {
  std::string bare = lower_case_text(text);
  std::erase_if(bare, [](char c) { return is_ascii_punctuation(static_cast<unsigned char>(c)); });
  // An article is a separate run of letters and digits. Any other characters may surround it.
  std::string result;
  bool gap = false;
  const auto is_alphanumeric = [](char32_t c) { return is_letter(c) || is_number(c); };
  const auto put = [&](std::string_view part) {
    if (gap && !result.empty()) result += ' ';
    gap = false;
    result += part;
  };
  for (std::size_t i = 0; i < bare.size();) {
    const std::size_t begin = i;
    const char32_t first = next_code_point(bare, i);
    if (!is_alphanumeric(first)) {
      if (is_space(first))
        gap = true;
      else
        put(std::string_view(bare).substr(begin, i - begin));
      continue;
    }
    for (std::size_t next = i; i < bare.size() && is_alphanumeric(next_code_point(bare, next));)
      i = next;
    const std::string_view word = std::string_view(bare).substr(begin, i - begin);
    if (word == "a" || word == "an" || word == "the")
      gap = true;
    else
      put(word);
  }
  return result;
}

double exact_match(std::string_view truth, std::string_view predicted) {
  return normalize_answer(truth) == normalize_answer(predicted);
}

double answer_f1(std::string_view truth, std::string_view predicted) {
  const std::string right = normalize_answer(truth), given = normalize_answer(predicted);
  const auto right_words = words_between(right, " "), words = words_between(given, " ");
  if (right_words.empty() || words.empty()) return right_words.empty() && words.empty() ? 1 : 0;
  std::map<std::string_view, std::int64_t> left;
  for (const std::string_view word : right_words) ++left[word];
  double common = 0;
  for (const std::string_view word : words) common += left[word]-- > 0;
  return 2 * common / static_cast<double>(right_words.size() + words.size());
}

AnswerScore score_answer(std::span<const std::string> truths, std::string_view predicted) {
  static const std::string none;
  if (truths.empty()) truths = std::span(&none, 1);
  AnswerScore best;
  for (const std::string& truth : truths) {
    best.exact = std::max(best.exact, exact_match(truth, predicted));
    best.f1 = std::max(best.f1, answer_f1(truth, predicted));
  }
  return best;
}

}  // namespace nystrom
