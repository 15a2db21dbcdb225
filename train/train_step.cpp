#include "train/train_step.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

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

std::int64_t count_equal(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu_device), y = b.to(cpu_device);
  return std::inner_product(x.data<std::int64_t>(), x.data<std::int64_t>() + x.numel(), y.data<std::int64_t>(), std::int64_t{0},
                            std::plus<>(), std::equal_to<>());
}

StepResult train_step(Model& model, AdamW& optimizer, std::span<const MicroBatch> batches, const StepOptions& options) {
  const std::int64_t chosen = chosen_tokens(batches);
  require(chosen > 0, "train_step: no token of the batch is chosen for prediction");
  optimizer.zero_gradients();
  double loss = 0;
  std::int64_t correct = 0;
  for (const MicroBatch& batch : batches) {
    const AllocationLabel label("activations");
    const RunContext run{options.dropout, options.activation_checkpointing, options.seed, options.step, batch.sample_ids};
    Tape tape;
    const MaskedLmOutput part = model.masked_lm(batch.input, batch.labels, static_cast<double>(chosen), run);
    loss += part.loss.value().item();
    correct += count_equal(part.predictions, part.labels);
    tape.backward(part.loss);
  }
  const double accuracy = static_cast<double>(correct) / static_cast<double>(chosen);
  const double norm = optimizer.gradient_norm();
  if (!std::isfinite(norm) || !std::isfinite(loss)) return {loss, accuracy, norm, true};
  const double scale = options.clip_norm ? std::min(1.0, *options.clip_norm / (norm + 1e-6)) : 1.0;
  optimizer.step(options.learning_rate, scale);
  return {loss, accuracy, norm, false};
}

}  // namespace nystrom
