// What a model computes for a batch of a task, and the loss of it.
#pragma once

#include "data/tasks/task_loader.h"
#include "nn/model.h"

namespace nystrom {

/// The outputs for a batch, in the form that the task asks for: logits of choices as [b, c].
ModelOutput task_output(const Model& model, const Batch& batch, const RunContext& run = {});

/// The loss of a labelled batch, divided by `normaliser` in the place of its own number of targets:
/// cross-entropy of classes, of words and of choices, the squared error of values, ½ (start + end)
/// of spans. [1] in the accumulate type.
///
/// Spans compete with all positions of their row. Hugging Face counts padding among them; under
/// semantics nystrom it is left out, so that what a sample costs does not depend on its batch.
Var task_loss(const ModelConfig& config, TaskTarget target, const ModelOutput& out,
              const Batch& batch, double normaliser);

}  // namespace nystrom
