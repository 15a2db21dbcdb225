// How well a model does a task.
#pragma once

#include <functional>

#include "data/tasks/task_scorer.h"
#include "nn/model.h"
#include "train/distributed/communicator.h"

namespace nystrom {

struct TaskEvaluation {
  TaskScores scores;
  double loss = 0;  ///< mean over the targets
};

/// Every sample of a labelled data set once, `batch_size` at a time; no dropout. `progress` is
/// called with the number of samples done. The work is spread over the processes, and the result is
/// the same bits in any number of them.
TaskEvaluation evaluate_task(const Model& model, const std::shared_ptr<const TaskDataset>& dataset,
                             const PaddingOptions& padding, std::int64_t batch_size,
                             Communicator& communicator,
                             const std::function<void(std::int64_t)>& progress = {});

/// "accuracy 0.9123, f1 0.9034", the one that decides first.
std::string describe(const TaskScores& scores);

}  // namespace nystrom
