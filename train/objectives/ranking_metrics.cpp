#include "train/objectives/ranking_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace nystrom {
namespace {

/// The gain of the first ten documents, discounted by rank (Järvelin & Kekäläinen, TOIS 2002).
double discounted_gain(std::span<const std::int64_t> relevances) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(10, relevances.size()); ++i)
    sum += static_cast<double>(std::max<std::int64_t>(0, relevances[i])) /
           std::log2(static_cast<double>(i + 2));
  return sum;
}

}  // namespace

RankingScores score_ranking(std::span<const std::int64_t> ranked,
                            std::vector<std::int64_t> judged) {
  RankingScores scores;
  const auto relevant =
      static_cast<double>(std::ranges::count_if(judged, [](std::int64_t r) { return r >= 1; }));
  if (relevant == 0) return scores;
  std::ranges::sort(judged, std::greater());
  scores.ndcg_at_10 = discounted_gain(ranked) / discounted_gain(judged);
  double found = 0, precisions = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(100, ranked.size()); ++i) {
    if (ranked[i] < 1) continue;
    const auto rank = static_cast<double>(i + 1);
    if (found == 0 && i < 10) scores.mrr_at_10 = 1 / rank;
    precisions += ++found / rank;
  }
  scores.recall_at_100 = found / relevant;
  scores.map_at_100 = precisions / relevant;
  return scores;
}

}  // namespace nystrom
