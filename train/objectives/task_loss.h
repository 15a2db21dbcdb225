// The outputs of a model for a batch of a downstream task, and their loss.
#pragma once

#include "data/tasks/task_loader.h"
#include "data/tasks/task_scorer.h"
#include "nn/model.h"

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
/// With semantics nystrom padding is excluded, so that the loss of a sample does not depend on its
/// batch.
Var task_loss(const ModelConfig& config, TaskTarget target, const ModelOutput& out,
              const Batch& batch, double normaliser);

}  // namespace nystrom
