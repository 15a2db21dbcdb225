#include "data/tasks/task_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace nystrom {
namespace {

template <class A, class B>
void check_sizes(const A& truth, const B& predicted) {
  require(truth.size() == predicted.size(), "metric: {} true values, {} predicted", truth.size(),
          predicted.size());
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Ranks from 1, where ties have their mean rank.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i)
      result[order[i]] = static_cast<double>(begin + 1 + end) / 2;
    begin = end;
  }
  return result;
}

bool is_constant(std::span<const double> values) {
  return std::ranges::all_of(values, [&](double value) { return value == values[0]; });
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

PrecisionRecall ClassCounts::score() const {
  return {share(correct, predicted), share(correct, truth), share(2 * correct, truth + predicted)};
}

std::map<std::int64_t, ClassCounts> count_classes(std::span<const std::int64_t> truth,
                                                  std::span<const std::int64_t> predicted) {
  check_sizes(truth, predicted);
  std::map<std::int64_t, ClassCounts> classes;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    ++classes[truth[i]].truth;
    ++classes[predicted[i]].predicted;
    classes[truth[i]].correct += truth[i] == predicted[i];
  }
  return classes;
}

double accuracy(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted) {
  check_sizes(truth, predicted);
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) correct += truth[i] == predicted[i];
  return share(correct, static_cast<std::int64_t>(truth.size()));
}

PrecisionRecall binary_f1(std::span<const std::int64_t> truth,
                          std::span<const std::int64_t> predicted, std::int64_t positive) {
  return count_classes(truth, predicted)[positive].score();
}

double macro_f1(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted) {
  const auto classes = count_classes(truth, predicted);
  double sum = 0;
  for (const auto& [number, counts] : classes) sum += counts.score().f1;
  return classes.empty() ? 0 : sum / static_cast<double>(classes.size());
}

std::vector<Tie> ties_of(const std::vector<bool>& positive, std::span<const double> scores) {
  check_sizes(positive, scores);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });
  std::vector<Tie> ties;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || scores[order[i]] != scores[order[i - 1]]) ties.emplace_back();
    (positive[order[i]] ? ties.back().positive : ties.back().negative) += 1;
  }
  return ties;
}

double matthews_correlation(std::span<const std::int64_t> truth,
                            std::span<const std::int64_t> predicted) {
  const auto n = static_cast<double>(truth.size());
  double correct = 0, both = 0, truth_squares = 0, predicted_squares = 0;
  for (const auto& [number, counts] : count_classes(truth, predicted)) {
    const auto t = static_cast<double>(counts.truth), p = static_cast<double>(counts.predicted);
    correct += static_cast<double>(counts.correct);
    both += t * p;
    truth_squares += t * t;
    predicted_squares += p * p;
  }
  const double product = (n * n - truth_squares) * (n * n - predicted_squares);
  return product == 0 ? 0 : (correct * n - both) / std::sqrt(product);
}

double pearson_correlation(std::span<const double> a, std::span<const double> b) {
  check_sizes(a, b);
  if (a.size() < 2 || !all_finite(a) || !all_finite(b) || is_constant(a) || is_constant(b))
    return NAN;
  const double mean_a = mean(a), mean_b = mean(b);
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i] - mean_b;
    aa += x * x;
    bb += y * y;
    ab += x * y;
  }
  return std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0);
}

double spearman_correlation(std::span<const double> a, std::span<const double> b) {
  check_sizes(a, b);
  if (!all_finite(a) || !all_finite(b)) return NAN;
  return pearson_correlation(ranks(a), ranks(b));
}

// ---- Entities -----------------------------------------------------------------------------------

namespace {

struct Tag {
  char letter = 'O';
  std::string_view type;
};

Tag parse_tag(std::string_view text) {
  if (text.empty()) return {};
  std::string_view type = text.substr(1);
  if (type.starts_with('-')) type.remove_prefix(1);
  return {text[0], type.empty() ? "_" : type};
}

/// Whether the entity of `before` continues at the word of `tag`.
bool goes_on(const Tag& before, const Tag& tag) {
  const bool open = before.letter != 'O' && before.letter != 'E' && before.letter != 'S';
  const bool inside = tag.letter != 'O' && tag.letter != 'B' && tag.letter != 'S';
  return open && inside && before.type == tag.type;
}

}  // namespace

std::vector<TaggedSpan> tagged_spans(std::span<const std::string> tags) {
  std::vector<TaggedSpan> spans;
  Tag before;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const Tag tag = parse_tag(tags[i]);
    const auto place = static_cast<std::int64_t>(i);
    if (goes_on(before, tag))
      spans.back().end = place + 1;
    else if (tag.letter != 'O')
      spans.push_back({std::string(tag.type), place, place + 1});
    before = tag;
  }
  return spans;
}

bool is_entity_tag(std::string_view tag) {
  if (tag == "O") return true;
  return tag.size() > 2 && tag[1] == '-' &&
         std::string_view("BIES").find(tag[0]) != std::string_view::npos;
}

EntityScores score_entities(std::span<const std::vector<std::string>> truth,
                            std::span<const std::vector<std::string>> predicted) {
  check_sizes(truth, predicted);
  ClassCounts spans;
  std::int64_t words = 0, equal = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    check_sizes(truth[i], predicted[i]);
    const std::vector<TaggedSpan> right = tagged_spans(truth[i]),
                                  found = tagged_spans(predicted[i]);
    spans.truth += std::ssize(right);
    spans.predicted += std::ssize(found);
    for (const TaggedSpan& span : found) spans.correct += std::ranges::count(right, span);
    for (std::size_t word = 0; word < truth[i].size(); ++word)
      equal += truth[i][word] == predicted[i][word];
    words += std::ssize(truth[i]);
  }
  return {spans.score(), share(equal, words)};
}

}  // namespace nystrom
