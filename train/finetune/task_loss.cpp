#include "train/finetune/task_loss.h"

#include "core/check.h"

namespace nystrom {
namespace {

/// The penalty that excludes a position from a softmax: its exp is 0 in every dtype.
constexpr double excluded = -1e9;

/// The penalty for each position of an attention mask [b, n]: 0 if valid, `excluded` if padding.
Tensor padding_penalty(const Tensor& mask, DType dtype, Device device) {
  std::vector<double> values;
  for (const double valid : mask.to_doubles()) values.push_back(valid != 0 ? 0 : excluded);
  return Tensor::from(values, mask.shape()).cast(dtype).to(device);
}

}  // namespace

ModelOutput task_output(const Model& model, const Batch& batch, const RunContext& run) {
  RunContext logits = run;
  logits.logits_only = true;
  ModelOutput out = model(batch.input, logits);
  if (model.config().head == Head::multiple_choice)
    out.logits = reshape(out.logits, {out.logits.dim(0) / batch.choices, batch.choices});
  return out;
}

Var task_loss(const ModelConfig& config, TaskTarget target, const ModelOutput& out,
              const Batch& batch, double normaliser) {
  const Device device = (out.logits.defined() ? out.logits : out.start_logits).value().device();
  switch (target) {
    case TaskTarget::classes:
    case TaskTarget::word_classes:
    case TaskTarget::choice: return classification_loss(out.logits, batch.labels, normaliser);
    case TaskTarget::value: {
      const std::int64_t rows = out.logits.dim(0);
      const Var mean = mean_squared_error(reshape(out.logits, {rows}), batch.labels.to(device));
      return mean * (static_cast<double>(rows) / normaliser);
    }
    case TaskTarget::span: {
      Var start = out.start_logits, end = out.end_logits;
      if (batch.input.attention_mask.defined() &&
          config.attention.semantics == Semantics::nystrom) {
        const Var penalty(padding_penalty(batch.input.attention_mask, start.dtype(), device));
        start = start + penalty;
        end = end + penalty;
      }
      return question_answering_loss(start, end, batch.start_positions, batch.end_positions,
                                     normaliser);
    }
    case TaskTarget::none: break;
  }
  throw Error("task_loss: the task predicts nothing");
}

}  // namespace nystrom
