#include "train/finetune/task_loss.h"

#include "core/check.h"

namespace nystrom {
namespace {

/// The penalty that excludes a position from a softmax: its exp is 0 in every dtype.
constexpr double excluded = -1e9;

/// Logits [b, n] of sequences with these offsets, without the positions behind their tokens.
Var of_tokens(const Var& logits, const std::vector<std::int64_t>& offsets) {
  const auto length = static_cast<std::size_t>(logits.dim(1));
  std::vector<double> penalties;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    penalties.resize(penalties.size() + static_cast<std::size_t>(offsets[i] - offsets[i - 1]));
    penalties.resize(i * length, excluded);
  }
  const Tensor penalty = Tensor::from(penalties, logits.shape()).cast(logits.dtype());
  return logits + Var(penalty.to(logits.value().device()));
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
    case TaskTarget::label_set: return multi_label_loss(out.logits, batch.labels, normaliser);
    case TaskTarget::value: {
      const std::int64_t rows = out.logits.dim(0);
      const Var mean = mean_squared_error(reshape(out.logits, {rows}), batch.labels.to(device));
      return mean * (static_cast<double>(rows) / normaliser);
    }
    case TaskTarget::span: {
      Var start = out.start_logits, end = out.end_logits;
      if (config.attention.semantics == Semantics::nystrom) {
        start = of_tokens(start, batch.input.offsets);
        end = of_tokens(end, batch.input.offsets);
      }
      return question_answering_loss(start, end, batch.start_positions, batch.end_positions,
                                     normaliser);
    }
    case TaskTarget::none: break;
  }
  throw Error("task_loss: the task predicts nothing");
}

}  // namespace nystrom
