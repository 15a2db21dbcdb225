// Evaluation of a model on a downstream task.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "data/tasks/task_scorer.h"
#include "nn/model.h"
#include "train/distributed/communicator.h"

namespace nystrom {

struct TaskEvaluation {
  TaskScores scores;
  double loss = 0;  ///< mean over the targets
};

/// Evaluates each sample of a labelled data set once, in batches of `batch_size`, without dropout.
/// `progress` is called with the number of samples done. The processes share the work. The result
/// is bit-identical in all of them and for any number of processes.
TaskEvaluation evaluate_task(const Model& model, const std::shared_ptr<const TaskDataset>& dataset,
                             std::int64_t batch_size, Communicator& communicator,
                             const std::function<void(std::int64_t)>& progress = {});

/// The scores as text, the decisive metric first: "accuracy 0.9123, f1 0.9034".
std::string describe(const TaskScores& scores);

/// An evaluation as JSON: examples, loss, metrics, confusion, and the figures of each class.
nlohmann::ordered_json evaluation_json(const TaskDataset& data, const TaskEvaluation& evaluation);
/// An object of results as text, in which labels that are not UTF-8 have replacement characters.
std::string results_text(const nlohmann::ordered_json& results);

}  // namespace nystrom
