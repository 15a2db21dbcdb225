// Scores of rankings, equal to those of trec_eval.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nystrom {

/// The scores of the ranking for one query, or their means over queries.
struct RankingScores {
  double ndcg_at_10 = 0;     ///< trec_eval's ndcg_cut_10: gains are relevances
  double mrr_at_10 = 0;      ///< 1 / rank of the first relevant document, 0 beyond 10
  double recall_at_100 = 0;  ///< recall_100
  double map_at_100 = 0;     ///< map_cut_100
};

/// Scores the ranking for one query. `ranked` has the relevance of each document, best first, with
/// 0 for documents that are not judged. `judged` has the relevance of each judged document, also of
/// those that were not found. A document is relevant from 1 on. Without a relevant document all
/// scores are 0.
RankingScores score_ranking(std::span<const std::int64_t> ranked, std::vector<std::int64_t> judged);

}  // namespace nystrom
