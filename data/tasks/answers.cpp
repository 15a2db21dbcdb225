#include "data/tasks/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/word_cut.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

/// The range without the white space at its ends.
TextRange trimmed_range(std::string_view text, TextRange range) {
  const std::string_view inner = trimmed(text_at(text, range));
  return {inner.data() - text.data(),
          inner.data() - text.data() + static_cast<std::int64_t>(inner.size())};
}

/// The softmax of a window's scores over cls and its context, by position.
std::vector<double> probabilities(std::span<const double> scores, const EncodedSample& window) {
  require(scores.size() >= window.rows[0].ids.size(), "best_answers: {} scores of {} tokens",
          scores.size(), window.rows[0].ids.size());
  std::vector<std::size_t> places(window.places.size() + 1);  // 0: cls
  std::iota(places.begin() + 1, places.end(), static_cast<std::size_t>(window.context_begin));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const std::size_t place : places)
    if (std::isfinite(scores[place])) largest = std::max(largest, scores[place]);
  for (const std::size_t place : places)
    if (std::isfinite(scores[place])) sum += std::exp(scores[place] - largest);
  std::vector<double> result(scores.size());
  for (const std::size_t place : places) result[place] = std::exp(scores[place] - largest) / sum;
  return result;
}

/// A pair of tokens of a window, by their numbers in its context.
struct TokenPair {
  std::size_t first, last;
  double probability;
};

/// Keeps the `count` most probable pairs, best first.
void keep_best(std::vector<TokenPair>& pairs, std::size_t count) {
  std::ranges::stable_sort(pairs, std::greater(), &TokenPair::probability);
  pairs.resize(std::min(pairs.size(), count));
}

/// The `count` most probable pairs of at most `longest` tokens, best first.
std::vector<TokenPair> best_pairs(const EncodedSample& window, const std::vector<double>& starts,
                                  const std::vector<double>& ends, std::int64_t longest,
                                  std::size_t count) {
  std::vector<TokenPair> pairs;
  const std::size_t tokens = window.places.size(),
                    begin = static_cast<std::size_t>(window.context_begin);
  for (std::size_t first = 0; first < tokens; ++first) {
    const double start = starts[begin + first];
    for (std::size_t last = first; last < tokens && std::cmp_less(last - first, longest); ++last) {
      const double end = ends[begin + last];
      if (start * end > 0) pairs.push_back({first, last, start * end});
    }
    if (pairs.size() > 64 * count) keep_best(pairs, count);  // bounds the memory
  }
  keep_best(pairs, count);
  return pairs;
}

/// Python's str.isspace.
bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

/// The F1 of the words of two normalised answers.
double words_f1(std::string_view right, std::string_view given) {
  const auto right_words = words_between(right, " "), words = words_between(given, " ");
  if (right_words.empty() || words.empty()) return right_words.empty() && words.empty() ? 1 : 0;
  std::map<std::string_view, std::int64_t> left;
  for (const std::string_view word : right_words) ++left[word];
  double common = 0;
  for (const std::string_view word : words) common += left[word]-- > 0;
  return 2 * common / static_cast<double>(right_words.size() + words.size());
}

}  // namespace

std::vector<PredictedAnswer> best_answers(std::string_view context,
                                          std::span<const WindowScores> windows,
                                          const TaskConfig& task, std::int64_t best) {
  std::vector<PredictedAnswer> answers;
  std::map<std::string, std::size_t> number_of;
  const auto pairs = static_cast<std::size_t>(task.whole_words ? 2 * best + 10 : best);
  double none = 1;
  for (const WindowScores& scores : windows) {
    const EncodedSample& window = *scores.window;
    const std::vector<double> starts = probabilities(scores.start, window),
                              ends = probabilities(scores.end, window);
    none = std::min(none, starts[0] * ends[0]);
    for (const TokenPair& pair : best_pairs(window, starts, ends, task.max_answer_length, pairs)) {
      const std::int64_t begin = window.places[pair.first].begin;
      const TextRange words{begin, std::max(begin, window.places[pair.last].end)};
      const TextRange range = trimmed_range(context, words);
      if (range.begin == range.end) continue;
      const auto [found, is_new] =
          number_of.try_emplace(lower_case_text(text_at(context, words)), answers.size());
      if (is_new) answers.push_back({std::string(text_at(context, range)), range});
      answers[found->second].score += pair.probability;
    }
  }
  std::ranges::stable_sort(answers, std::greater(), &PredictedAnswer::score);
  if (answers.empty()) return {PredictedAnswer{.text = "", .place = {}, .score = none}};
  if (task.no_answer == true) {
    const auto behind = std::ranges::find_if(answers, [&](const PredictedAnswer& answer) {
      return std::log(answer.score) + task.no_answer_threshold < std::log(none);
    });
    answers.insert(behind, {"", {}, none});
  }
  answers.resize(std::min(answers.size(), static_cast<std::size_t>(best)));
  return answers;
}

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

AnswerScore score_answer(std::span<const std::string> truths, std::string_view predicted) {
  const std::string given = normalize_answer(predicted);
  std::vector<std::string> rights;  // without those that leave no word, as SQuAD 2.0's script
  for (const std::string& truth : truths)
    if (std::string right = normalize_answer(truth); !right.empty())
      rights.push_back(std::move(right));
  if (rights.empty()) rights.emplace_back();
  AnswerScore best;
  for (const std::string& right : rights) {
    if (right == given) best.exact = 1;
    best.f1 = std::max(best.f1, words_f1(right, given));
  }
  return best;
}

}  // namespace nystrom
