#include "train/train_step.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace nystrom {
namespace {

std::int64_t chosen_tokens(std::span<const MicroBatch> batches) {
  std::int64_t count = 0;
  for (const MicroBatch& batch : batches) {
    const Tensor labels = batch.labels.to(cpu_device).contiguous();
    const auto* label = labels.data<std::int64_t>();
    count += std::count_if(label, label + labels.numel(), [](std::int64_t l) { return l != ignored_label; });
  }
  return count;
}

}  // namespace

StepResult train_step(Model& model, AdamW& optimizer, std::span<const MicroBatch> batches, const StepOptions& options) {
  const std::int64_t chosen = chosen_tokens(batches);
  require(chosen > 0, "train_step: no token of the batch is chosen for prediction");
  optimizer.zero_gradients();
  double loss = 0;
  for (const MicroBatch& batch : batches) {
    const AllocationLabel label("activations");
    const RunContext run{options.dropout, options.activation_checkpointing, options.seed, options.step, batch.sample_ids};
    Tape tape;
    const Var part = model.masked_lm_loss(batch.input, batch.labels, static_cast<double>(chosen), run);
    loss += part.value().item();
    tape.backward(part);
  }
  const double norm = optimizer.gradient_norm();
  if (!std::isfinite(norm) || !std::isfinite(loss)) return {loss, norm, true};
  const double scale = options.clip_norm ? std::min(1.0, *options.clip_norm / (norm + 1e-6)) : 1.0;
  optimizer.step(options.learning_rate, scale);
  return {loss, norm, false};
}

}  // namespace nystrom
