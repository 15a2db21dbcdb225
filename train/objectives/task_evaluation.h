// The outputs of a model for a downstream task, their loss, and its evaluation.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "data/tasks/task_loader.h"
#include "data/tasks/task_scorer.h"
#include "nn/model.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// Runs the model on a batch, by default for logits only. For multiple choice they are reshaped to
/// [b, c], with c choices per example. The input of a batch that is moved here is freed as soon as
/// it is embedded.
ModelOutput task_output(const Model& model, Batch batch,
                        const RunContext& run = {.logits_only = true});

/// The outputs of a batch with these samples, one by one.
std::vector<SampleOutputs> sample_outputs(const TaskDataset& data,
                                          std::span<const std::int64_t> samples,
                                          const ModelOutput& out);

/// The loss of a labelled batch: the sum over its targets, divided by `normaliser`. The result has
/// shape [1] and the accumulate dtype. Classes, words and choices have the cross-entropy loss,
/// label sets the mean of their labels' binary cross-entropies, values the squared error, and spans
/// the mean of the start and end cross-entropies. Those of classes and values are multiplied by
/// Batch::weights. Throws an Error for TaskTarget::none.
///
/// The softmax of a span runs over all positions of its row. In Hugging Face these include padding.
/// Here they do where all rows have one length (ModelConfig::fixed_length). Otherwise padding is
/// excluded, so that the loss of a sample does not depend on its batch; run_forward, whose caller
/// pads, excludes it with semantics nystrom alone.
Var task_loss(const ModelConfig& config, TaskTarget target, const ModelOutput& out,
              const Batch& batch, double normaliser);

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
