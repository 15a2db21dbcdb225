#include "train/objectives/task_loss.h"

#include <cmath>
#include <set>

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

/// The labels whose samples have the factor `weight`; ignore_index for the others.
Tensor labels_of_weight(const Batch& batch, double weight) {
  Tensor labels = batch.labels.clone();
  for (std::size_t i = 0; i < batch.weights.size(); ++i)
    if (batch.weights[i] != weight) labels.data<std::int64_t>()[i] = ignore_index;
  return labels;
}

/// Σ weight · cross-entropy / normaliser: the few different weights, one by one.
Var weighted_classification_loss(const Var& logits, const Batch& batch, double normaliser) {
  Var loss;
  for (const double weight : std::set<double>(batch.weights.begin(), batch.weights.end())) {
    const Var own =
        weight * classification_loss(logits, labels_of_weight(batch, weight), normaliser);
    loss = loss.defined() ? loss + own : own;
  }
  return loss;
}

/// Σ weight · (output − value)² / normaliser.
Var squared_error(const Var& outputs, const Batch& batch, double normaliser) {
  const std::int64_t rows = batch.labels.numel();
  Tensor values = batch.labels;
  Var x = reshape(outputs, {rows});
  if (!batch.weights.empty()) {
    std::vector<double> roots;
    for (const double weight : batch.weights) roots.push_back(std::sqrt(weight));
    const Tensor factors = Tensor::from(roots, {rows});
    x = x * Var(factors.cast(x.dtype()).to(x.value().device()));
    values = (Var(values.cast(DType::f64)) * Var(factors)).value().cast(values.dtype());
  }
  return mean_squared_error(x, values.to(x.value().device())) *
         (static_cast<double>(rows) / normaliser);
}

}  // namespace

ModelOutput task_output(const Model& model, Batch batch, const RunContext& run) {
  ModelOutput out = model(std::move(batch.input), run);
  if (model.config().head == Head::multiple_choice)
    out.logits = reshape(out.logits, {out.logits.dim(0) / batch.choices, batch.choices});
  return out;
}

std::vector<SampleOutputs> sample_outputs(const TaskDataset& data,
                                          std::span<const std::int64_t> samples,
                                          const ModelOutput& out) {
  return data.target() == TaskTarget::span
             ? outputs_by_sample(data, samples, out.start_logits.value(), out.end_logits.value())
             : outputs_by_sample(data, samples, out.logits.value());
}

Var task_loss(const ModelConfig& config, TaskTarget target, const ModelOutput& out,
              const Batch& batch, double normaliser) {
  switch (target) {
    case TaskTarget::classes:
      if (!batch.weights.empty())
        return weighted_classification_loss(out.logits, batch, normaliser);
      [[fallthrough]];
    case TaskTarget::word_classes:
    case TaskTarget::choice: return classification_loss(out.logits, batch.labels, normaliser);
    case TaskTarget::label_set: return multi_label_loss(out.logits, batch.labels, normaliser);
    case TaskTarget::value: return squared_error(out.logits, batch, normaliser);
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
