#include "data/tasks/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/check.h"
#include "data/tasks/blanks.h"

namespace nystrom {
namespace {

/// The range without the white space at its ends.
TextRange trimmed_range(std::string_view text, TextRange range) {
  const std::string_view inner = trimmed(text.substr(
      static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin)));
  return {inner.data() - text.data(),
          inner.data() - text.data() + static_cast<std::int64_t>(inner.size())};
}

/// The positions of the `count` largest finite scores in the context, best first, and equal ones by
/// position.
std::vector<std::int64_t> best_places(std::span<const double> scores, const EncodedSample& window,
                                      std::int64_t count) {
  std::vector<std::int64_t> places;
  const auto end = window.context_begin + static_cast<std::int64_t>(window.offsets.size());
  for (std::int64_t place = window.context_begin; place < end; ++place)
    if (std::isfinite(scores[static_cast<std::size_t>(place)])) places.push_back(place);
  std::ranges::stable_sort(places, std::greater(), [&](std::int64_t place) {
    return scores[static_cast<std::size_t>(place)];
  });
  places.resize(std::min(places.size(), static_cast<std::size_t>(count)));
  return places;
}

/// The softmax of a window's scores over cls and its context.
class Probabilities {
 public:
  Probabilities(std::span<const double> scores, const EncodedSample& window) : scores_(scores) {
    const auto use = [&](const auto& add) {
      if (std::isfinite(scores[0])) add(scores[0]);
      for (std::size_t i = 0; i < window.offsets.size(); ++i)
        if (const double score = scores[static_cast<std::size_t>(window.context_begin) + i];
            std::isfinite(score))
          add(score);
    };
    use([&](double score) { largest_ = std::max(largest_, score); });
    use([&](double score) { sum_ += std::exp(score - largest_); });
  }

  double operator()(std::int64_t place) const {
    return std::exp(scores_[static_cast<std::size_t>(place)] - largest_) / sum_;
  }

 private:
  std::span<const double> scores_;
  double largest_ = -std::numeric_limits<double>::infinity(), sum_ = 0;
};

struct Candidate {
  double score = -std::numeric_limits<double>::infinity();  // the best of all windows
  double probability = 0;                                   // added over all windows
};
using Candidates = std::map<std::pair<std::int64_t, std::int64_t>, Candidate>;  // by byte range

void add_candidates(std::string_view context, const WindowScores& scores,
                    const AnswerOptions& options, Candidates& candidates) {
  const EncodedSample& window = *scores.window;
  const std::size_t length = window.rows[0].ids.size();
  require(scores.start.size() >= length && scores.end.size() >= length,
          "best_answers: {} and {} scores of {} tokens", scores.start.size(), scores.end.size(),
          length);
  const auto ends = best_places(scores.end, window, options.best);
  const Probabilities start_of(scores.start, window), end_of(scores.end, window);
  for (const std::int64_t start : best_places(scores.start, window, options.best)) {
    for (const std::int64_t end : ends) {
      if (end < start || end - start >= options.max_answer_length) continue;
      const TextRange& first =
          window.offsets[static_cast<std::size_t>(start - window.context_begin)];
      const TextRange& last = window.offsets[static_cast<std::size_t>(end - window.context_begin)];
      const TextRange range =
          trimmed_range(context, {first.begin, std::max(first.begin, last.end)});
      if (range.begin == range.end) continue;
      const double score =
          scores.start[static_cast<std::size_t>(start)] + scores.end[static_cast<std::size_t>(end)];
      Candidate& candidate = candidates[{range.begin, range.end}];
      candidate.score = std::max(candidate.score, score);
      candidate.probability += start_of(start) * end_of(end);
    }
  }
}

}  // namespace

std::vector<PredictedAnswer> best_answers(std::string_view context,
                                          std::span<const WindowScores> windows,
                                          const AnswerOptions& options) {
  Candidates candidates;
  double none = std::numeric_limits<double>::infinity(), none_probability = 1;
  for (const WindowScores& window : windows) {
    add_candidates(context, window, options, candidates);
    none = std::min(none, window.start[0] + window.end[0]);
    none_probability = std::min(none_probability, Probabilities(window.start, *window.window)(0) *
                                                      Probabilities(window.end, *window.window)(0));
  }
  std::vector<PredictedAnswer> answers;
  for (const auto& [place, candidate] : candidates) {
    const auto begin = static_cast<std::size_t>(place.first),
               end = static_cast<std::size_t>(place.second);
    answers.push_back({std::string(context.substr(begin, end - begin)),
                       {place.first, place.second},
                       candidate.score,
                       candidate.probability});
  }
  std::ranges::stable_sort(answers, std::greater(), &PredictedAnswer::score);
  if (options.no_answer && std::isfinite(none)) {
    const auto behind = std::ranges::find_if(answers, [&](const PredictedAnswer& answer) {
      return answer.score + options.no_answer_threshold < none;
    });
    answers.insert(behind, {"", {}, none, none_probability});
  }
  if (answers.empty())
    return {PredictedAnswer{.text = "", .place = {}, .score = 0, .probability = 1}};
  answers.resize(std::min(answers.size(), static_cast<std::size_t>(options.best)));
  return answers;
}

}  // namespace nystrom
