#include "data/tasks/task_metrics.h"

#include <cmath>
#include <limits>

#include "core/check.h"

namespace nystrom {
namespace {

template <class A, class B>
void check_sizes(const A& truth, const B& predicted) {
  require(truth.size() == predicted.size(), "metric: {} true values, {} predicted", truth.size(),
          predicted.size());
}

template <class Number>
double share(Number part, Number whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// The counts of every class in truth or predictions.
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

bool is_constant(std::span<const double> values) {
  return std::ranges::all_of(values, [&](double value) { return value == values[0]; });
}

double mean(std::span<const double> values) {
  return share(std::accumulate(values.begin(), values.end(), 0.0),
               static_cast<double>(values.size()));
}

/// The differences from the mean, times a power of two that brings the largest value to 1, so that
/// no square is too large or too small.
std::vector<double> deviations(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  std::vector<double> result;
  for (const double value : values) result.push_back(std::ldexp(value, -exponent));
  const double middle = mean(result);
  for (double& value : result) value -= middle;
  return result;
}

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

/// The entries of one score.
struct Tie {
  double negative = 0, positive = 0;
};

/// How many entries have each score, the lowest first. No score is NaN.
std::vector<Tie> ties_of(const std::vector<bool>& positive, std::span<const double> scores) {
  check_sizes(positive, scores);
  const auto order = indices_by(scores.size(), [&](std::size_t i) { return scores[i]; });
  std::vector<Tie> ties;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || scores[order[i]] != scores[order[i - 1]]) ties.emplace_back();
    (positive[order[i]] ? ties.back().positive : ties.back().negative) += 1;
  }
  return ties;
}

/// The log-odds of each class. They order entries as probabilities do, do not saturate, and are
/// the same for every order of the other classes.
std::vector<double> log_odds(const std::vector<double>& logits) {
  const std::size_t classes = logits.size();
  const auto order = indices_by(
      classes, [&](std::size_t c) { return logits[c]; }, std::greater());
  std::vector<double> before(classes + 1), after(classes + 1);  // Σ exp(logit − the largest)
  const auto relative = [&](std::size_t i, std::size_t top) {
    return std::exp(logits[order[i]] - logits[order[top]]);
  };
  for (std::size_t i = 0; i < classes; ++i) before[i + 1] = before[i] + relative(i, 0);
  for (std::size_t i = classes; i-- > 1;) after[i] = after[i + 1] + relative(i, 0);
  std::vector<double> odds(classes);
  for (std::size_t i = 1; i < classes; ++i)
    odds[order[i]] = logits[order[i]] - logits[order[0]] - std::log(before[i] + after[i + 1]);
  double others = 0;  // of the largest: beside the second, so that they do not vanish
  for (std::size_t i = classes; i-- > 1;) others += relative(i, 1);
  if (classes > 1) odds[order[0]] = logits[order[0]] - logits[order[1]] - std::log(others);
  return odds;
}

/// The average precision of the label in column `label`.
double average_precision(const LabelSets& sets, std::int64_t label) {
  std::vector<bool> positive;
  std::vector<double> scores;
  for (auto at = static_cast<std::size_t>(label); at < sets.truth.size();
       at += static_cast<std::size_t>(sets.labels)) {
    const double score = sets.scores[at];
    scores.push_back(std::isnan(score) ? -std::numeric_limits<double>::infinity() : score);
    positive.push_back(sets.truth[at] != 0);
  }
  const auto all = static_cast<double>(std::ranges::count(positive, true));
  double sum = 0, right = 0, passed = 0;
  const std::vector<Tie> ties = ties_of(positive, scores);
  std::for_each(ties.rbegin(), ties.rend(), [&](const Tie& tie) {
    right += tie.positive;
    passed += tie.positive + tie.negative;
    sum += share(tie.positive, all) * right / passed;
  });
  return sum;
}

}  // namespace

PrecisionRecall ClassCounts::score() const {
  return {share(correct, predicted), share(correct, truth), share(2 * correct, truth + predicted)};
}

ClassMetrics class_metrics(std::span<const std::int64_t> truth,
                           std::span<const std::int64_t> predicted) {
  ClassMetrics metrics{.classes = count_classes(truth, predicted)};
  const auto n = static_cast<double>(truth.size());
  double correct = 0, f1 = 0, recall = 0, present = 0, chance = 0, both = 0, truth_squares = 0,
         predicted_squares = 0;
  for (const auto& [label, counts] : metrics.classes) {
    const auto t = static_cast<double>(counts.truth), p = static_cast<double>(counts.predicted);
    const PrecisionRecall score = counts.score();
    correct += static_cast<double>(counts.correct);
    f1 += score.f1;
    recall += score.recall;
    present += counts.truth > 0;
    chance += t / n * (p / n);
    both += t * p;
    truth_squares += t * t;
    predicted_squares += p * p;
  }
  const double product = (n * n - truth_squares) * (n * n - predicted_squares);
  metrics.accuracy = share(correct, n);
  metrics.f1_macro = share(f1, static_cast<double>(metrics.classes.size()));
  metrics.matthews = product == 0 ? 0 : (correct * n - both) / std::sqrt(product);
  metrics.balanced_accuracy = share(recall, present);
  metrics.kappa = metrics.classes.size() < 2 ? NAN : (metrics.accuracy - chance) / (1 - chance);
  return metrics;
}

double roc_auc(const std::vector<bool>& positive, std::span<const double> scores) {
  if (std::ranges::any_of(scores, [](double score) { return std::isnan(score); })) return NAN;
  double pairs = 0, below = 0, positives = 0;  // below: negative entries of lower scores
  for (const Tie& tie : ties_of(positive, scores)) {
    pairs += tie.positive * (below + tie.negative / 2);
    below += tie.negative;
    positives += tie.positive;
  }
  return positives == 0 || below == 0 ? NAN : pairs / (positives * below);
}

std::vector<ClassFigures> class_figures(std::span<const std::int64_t> truth,
                                        std::span<const std::int64_t> predicted,
                                        std::span<const std::vector<double>> logits,
                                        std::int64_t count) {
  auto classes = count_classes(truth, predicted);
  std::vector<ClassFigures> figures(static_cast<std::size_t>(count));
  std::vector<std::vector<double>> odds;
  for (const std::vector<double>& row : logits) odds.push_back(log_odds(row));
  for (std::size_t c = 0; c < figures.size(); ++c) {
    const auto label = static_cast<std::int64_t>(c);
    std::vector<bool> positive;
    std::vector<double> scores(truth.size());
    for (std::size_t i = 0; i < truth.size(); ++i) {
      positive.push_back(truth[i] == label);
      if (!odds.empty()) scores[i] = odds[i][c];
    }
    const ClassCounts& counts = classes[label];
    figures[c] = {counts.score(), counts.truth, roc_auc(positive, scores)};
  }
  return figures;
}

double mean_auc(std::span<const ClassFigures> classes) {
  double sum = 0;
  for (const ClassFigures& figures : classes) sum += figures.auc;
  return classes.empty() ? NAN : sum / static_cast<double>(classes.size());
}

std::vector<double> mean_ranks(std::span<const double> values) {
  const auto order = indices_by(values.size(), [&](std::size_t i) { return values[i]; });
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

double pearson_correlation(std::span<const double> a, std::span<const double> b) {
  check_sizes(a, b);
  if (a.size() < 2 || !all_finite(a) || !all_finite(b) || is_constant(a) || is_constant(b))
    return NAN;
  const std::vector<double> from_a = deviations(a), from_b = deviations(b);
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += from_a[i] * from_a[i];
    bb += from_b[i] * from_b[i];
    ab += from_a[i] * from_b[i];
  }
  return std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0);
}

double spearman_correlation(std::span<const double> a, std::span<const double> b) {
  check_sizes(a, b);
  if (!all_finite(a) || !all_finite(b)) return NAN;
  return pearson_correlation(mean_ranks(a), mean_ranks(b));
}

double sigmoid(double logit) {
  const double small = std::exp(-std::abs(logit));  // never overflows
  return (std::signbit(logit) ? small : 1) / (1 + small);
}

std::vector<ClassCounts> label_counts(const LabelSets& sets) {
  std::vector<ClassCounts> counts(static_cast<std::size_t>(sets.labels));
  for (std::size_t i = 0; i < sets.truth.size(); ++i) {
    ClassCounts& count = counts[i % counts.size()];
    count.truth += sets.truth[i];
    count.predicted += sets.predicted[i];
    count.correct += sets.truth[i] & sets.predicted[i];
  }
  return counts;
}

double micro_f1(const LabelSets& sets) {
  ClassCounts all;
  for (const ClassCounts& count : label_counts(sets)) {
    all.truth += count.truth;
    all.predicted += count.predicted;
    all.correct += count.correct;
  }
  return all.score().f1;
}

double macro_f1(const LabelSets& sets) {
  std::vector<double> scores;
  for (const ClassCounts& count : label_counts(sets)) scores.push_back(count.score().f1);
  return mean(scores);
}

double mean_average_precision(const LabelSets& sets) {
  std::vector<double> scores;
  for (std::int64_t label = 0; label < sets.labels; ++label)
    scores.push_back(average_precision(sets, label));
  return mean(scores);
}

double subset_accuracy(const LabelSets& sets) {
  const auto labels = static_cast<std::ptrdiff_t>(sets.labels);
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < sets.examples(); ++i)
    right += std::equal(sets.truth.begin() + i * labels, sets.truth.begin() + (i + 1) * labels,
                        sets.predicted.begin() + i * labels);
  return share(static_cast<double>(right), static_cast<double>(sets.examples()));
}

void predict_frequent_labels(LabelSets& sets) {
  const std::vector<ClassCounts> counts = label_counts({sets.labels, sets.truth, sets.truth, {}});
  const auto order = indices_by(
      counts.size(), [&](std::size_t i) { return counts[i].truth; }, std::greater());
  ClassCounts all;
  for (const ClassCounts& count : counts) all.truth += count.truth;
  double best = 0;
  std::vector<std::uint8_t> chosen(counts.size()), tried(counts.size());
  for (const std::size_t label : order) {
    tried[label] = 1;
    all.predicted += sets.examples();
    all.correct += counts[label].truth;
    if (all.score().f1 <= best) continue;
    best = all.score().f1;
    chosen = tried;
  }
  sets.predicted.clear();
  for (std::int64_t i = 0; i < sets.examples(); ++i)
    sets.predicted.insert(sets.predicted.end(), chosen.begin(), chosen.end());
  sets.scores.assign(sets.truth.size(), 0);
}

std::string metric_text(double value) {
  return std::isnan(value) ? "undefined" : fmt::format("{:.4f}", value);
}

void require_finite(std::span<const double> scores) {
  if (!std::ranges::all_of(scores, [](double score) { return std::isfinite(score); }))
    throw DivergedError(
        "the model's scores are not finite: its weights have grown beyond use, or beyond what the "
        "type of the computation holds");
}

std::vector<double> softmax_of(std::span<const double> scores) {
  require_finite(scores);
  std::vector<double> values(scores.begin(), scores.end());
  const double top = *std::ranges::max_element(values);
  double total = 0;
  for (double& value : values) total += value = std::exp(value - top);
  for (double& value : values) value /= total;
  return values;
}

std::vector<std::size_t> largest(std::span<const double> numbers, std::int64_t count) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + std::min(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return numbers[a] > numbers[b] || (!(numbers[b] > numbers[a]) && a < b);
  });
  order.erase(end, order.end());
  return order;
}

}  // namespace nystrom
