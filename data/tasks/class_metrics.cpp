#include "data/tasks/class_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace nystrom {
namespace {

/// The log-odds of each class. They order entries as probabilities do, do not saturate, and are
/// the same for every order of the other classes.
std::vector<double> log_odds(const std::vector<double>& logits) {
  const std::size_t classes = logits.size();
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t c) { return logits[c]; });
  std::vector<double> before(classes + 1), after(classes + 1);  // Σ exp(logit − the largest)
  const auto share = [&](std::size_t i, std::size_t top) {
    return std::exp(logits[order[i]] - logits[order[top]]);
  };
  for (std::size_t i = 0; i < classes; ++i) before[i + 1] = before[i] + share(i, 0);
  for (std::size_t i = classes; i-- > 1;) after[i] = after[i + 1] + share(i, 0);
  std::vector<double> odds(classes);
  for (std::size_t i = 1; i < classes; ++i)
    odds[order[i]] = logits[order[i]] - logits[order[0]] - std::log(before[i] + after[i + 1]);
  double others = 0;  // of the largest: beside the second, so that they do not vanish
  for (std::size_t i = classes; i-- > 1;) others += share(i, 1);
  if (classes > 1) odds[order[0]] = logits[order[0]] - logits[order[1]] - std::log(others);
  return odds;
}

}  // namespace

double balanced_accuracy(std::span<const std::int64_t> truth,
                         std::span<const std::int64_t> predicted) {
  double sum = 0, classes = 0;
  for (const auto& [label, counts] : count_classes(truth, predicted)) {
    sum += counts.score().recall;
    classes += counts.truth > 0;
  }
  return classes == 0 ? 0 : sum / classes;
}

double cohen_kappa(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted) {
  const auto classes = count_classes(truth, predicted);
  const auto n = static_cast<double>(truth.size());
  double chance = 0;
  for (const auto& [label, counts] : classes) {
    chance += static_cast<double>(counts.truth) / n * (static_cast<double>(counts.predicted) / n);
  }
  return classes.size() < 2 ? NAN : (accuracy(truth, predicted) - chance) / (1 - chance);
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
    figures[c] = {binary_f1(truth, predicted, label), std::ranges::count(truth, label),
                  roc_auc(positive, scores)};
  }
  return figures;
}

double mean_auc(std::span<const ClassFigures> classes) {
  double sum = 0;
  for (const ClassFigures& figures : classes) sum += figures.auc;
  return classes.empty() ? NAN : sum / static_cast<double>(classes.size());
}

}  // namespace nystrom
