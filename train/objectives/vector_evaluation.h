// Evaluation of vectors on texts with known answers. That of retrieval is in
// train/objectives/retrieval.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/tasks/examples.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// The scores of vectors, by name, and on what: {"pairs", 120}.
struct VectorScores {
  std::vector<std::pair<const char*, std::int64_t>> counts;
  std::vector<std::pair<const char*, double>> scores;
  std::vector<std::string> warnings = {};  ///< what a user should know of the data
};

/// The cosine of row i of a with row j of b, both [rows, d] f32. That with a row of zeros is 0.
double cosine(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j);

/// Do similar texts have similar vectors? Reads pairs with scores from the files that `patterns`
/// match, as `task` says (kind regression, resolved, with task.columns.pair), and correlates their
/// vectors' cosines with the scores: spearman, pearson. `first` embeds task.columns.text, and
/// `second` task.columns.pair. Throws an InputError "file:line: …".
VectorScores evaluate_pairs(TextEmbedder& first, TextEmbedder& second, const TaskConfig& task,
                            const std::vector<std::string>& patterns);

/// Do texts of one label lie together? Fits a logistic regression to the vectors of task.train, and
/// scores it on those of task.validation: accuracy, f1_macro. `task` is resolved and of kind
/// classification. The vectors of one of the two are in memory at a time. Throws an InputError
/// "file:line: …", also for a label that task.train does not have.
VectorScores evaluate_classes(TextEmbedder& embedder, const TaskConfig& task);

}  // namespace nystrom
