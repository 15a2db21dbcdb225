// Evaluation of vectors on scored pairs of texts: do similar texts have similar vectors?
#pragma once

#include <string>
#include <vector>

#include "data/tasks/examples.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// The cosine of row i of a with row j of b, both [rows, d] f32. That with a row of zeros is 0.
double cosine(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j);

/// Correlations of the cosines of pairs with their scores.
struct PairScores {
  double spearman = 0, pearson = 0;
  std::int64_t pairs = 0;
};

/// Reads pairs with scores from the files that `patterns` match, as `task` says (kind regression,
/// resolved, with task.columns.pair), and compares their vectors' cosines with the scores. `first`
/// embeds task.columns.text, and `second` task.columns.pair. Throws an InputError
/// "file:line: …".
PairScores evaluate_pairs(TextEmbedder& first, TextEmbedder& second, const TaskConfig& task,
                          const std::vector<std::string>& patterns);

}  // namespace nystrom
