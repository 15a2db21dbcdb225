#include "data/tasks/multi_label_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace nystrom {
namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double mean(const std::vector<double>& values) {
  return share(std::accumulate(values.begin(), values.end(), 0.0),
               static_cast<double>(values.size()));
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
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return counts[i].truth; });
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

}  // namespace nystrom
