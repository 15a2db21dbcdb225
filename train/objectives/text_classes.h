// Evaluation of vectors by a linear classifier: do texts of one label lie together?
#pragma once

#include <string>
#include <vector>

#include "data/tasks/examples.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// Scores of a classifier on texts that it was not fitted to.
struct ClassScores {
  double accuracy = 0, f1_macro = 0;
  std::int64_t train = 0, test = 0, labels = 0;
};

/// Fits a logistic regression to the vectors of task.train, and scores it on those of
/// task.validation. `task` is resolved and of kind classification. The vectors of one of the two
/// are in memory at a time. Throws an InputError "file:line: …", also for a label that task.train
/// does not have.
ClassScores evaluate_classes(TextEmbedder& embedder, const TaskConfig& task);

}  // namespace nystrom
