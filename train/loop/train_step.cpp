#include "train/loop/train_step.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {
namespace {

std::int64_t chosen_tokens(std::span<const Batch> batches) {
  std::int64_t count = 0;
  for (const Batch& batch : batches) {
    const Tensor labels = batch.labels.to(cpu_device).contiguous();
    const auto* label = labels.data<std::int64_t>();
    count += labels.numel() - std::count(label, label + labels.numel(), ignore_index);
  }
  return count;
}

}  // namespace

std::int64_t count_equal(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu_device), y = b.to(cpu_device);
  return std::inner_product(x.data<std::int64_t>(), x.data<std::int64_t>() + x.numel(),
                            y.data<std::int64_t>(), std::int64_t{0}, std::plus<>(),
                            std::equal_to<>());
}

Tensor argmax(const Var& logits) {
  require(logits.rank() == 2, "argmax: needs a matrix of logits, got {}", logits.shape());
  Tensor classes = Tensor::empty({logits.dim(0)}, DType::i64, logits.value().device());
  kernels::argmax_rows(logits.value(), classes);
  return classes;
}

StepResult optimizer_step(Optimizer& optimizer, std::span<const Batch> batches,
                          const PartOfLoss& loss_of, const StepOptions& options) {
  GradientSum* sum = options.gradient_sum;
  optimizer.zero_gradients();
  // Losses are read after all work is launched, because a read waits for the device.
  std::vector<Tensor> losses;
  for (std::size_t part = 0; part < batches.size(); ++part) {
    const AllocationLabel label("activations");
    RunContext run{options.dropout, options.activation_checkpointing, options.seed, options.step,
                   batches[part].sample_ids};
    run.z_loss = options.z_loss;
    if (part == 0) run.observe_attention = options.observe_attention;
    if (sum) sum->begin(part, run);
    Tape tape;
    const Var part_loss = loss_of(part, run);
    losses.push_back(part_loss.value());
    const Tensor& value = part_loss.value();
    tape.backward(part_loss,
                  Tensor::full(value.shape(), options.loss_scale, value.dtype(), value.device()));
    if (sum) sum->end(part);
  }
  const double norm = (sum ? sum->finish() : optimizer.gradient_norm()) / options.loss_scale;
  std::vector<double> parts;
  for (const Tensor& part : losses) parts.push_back(part.item());
  if (sum) parts = sum->losses_of_all(parts);
  const double loss = std::accumulate(parts.begin(), parts.end(), 0.0);
  StepResult result{loss, norm, !std::isfinite(norm) || !std::isfinite(loss)};
  for (const Batch& batch : batches) result.tokens += batch.tokens;
  if (result.skipped) return result;
  const double scale = options.clip_norm ? clip_factor(norm, *options.clip_norm) : 1.0;
  optimizer.step(options.learning_rate, scale / options.loss_scale);
  if (sum) sum->share_parameters();
  return result;
}

std::vector<double> sum_over_processes(const StepOptions& options, const std::vector<double>& own) {
  return options.gradient_sum ? options.gradient_sum->communicator().sum(own) : own;
}

StepResult step_without_targets() {
  StepResult result{NAN, 0, true};
  result.has_targets = false;
  return result;
}

StepResult train_step(Model& model, Optimizer& optimizer, std::span<const Batch> batches,
                      const StepOptions& options) {
  double own_sequences = 0, own_tokens = 0;
  for (const Batch& batch : batches) {
    own_sequences += static_cast<double>(batch.input.offsets.empty() ? batch.labels.dim(0)
                                                                     : batch.input.sequences());
    own_tokens += static_cast<double>(batch.tokens);
  }
  const std::vector<double> counts = sum_over_processes(
      options, {static_cast<double>(chosen_tokens(batches)), own_sequences, own_tokens});
  const double chosen = counts[0], sequences = counts[1];
  if (chosen == 0) return step_without_targets();
  std::vector<MaskedLmOutput> outputs;
  std::vector<Tensor> orders;
  std::vector<DistilledShare> shares;
  const bool order = batches[0].swapped.defined();
  const auto loss = [&](std::size_t part, const RunContext& run) {
    RunContext context = run;
    std::optional<DistillationPass> pass;
    if (options.distillation) {
      pass.emplace(*options.distillation, batches[part],
                   StepTotals{chosen, counts[2], options.loss_scale});
      pass->observe(context);
    }
    MaskedLmOutput out =
        model.masked_lm(batches[part].input, batches[part].labels, chosen, context);
    outputs.push_back({{}, out.predictions, out.labels});
    if (pass) {
      Var total = pass->loss(out);
      shares.push_back(pass->parts());
      return total;
    }
    if (!order) return std::move(out.loss);
    orders.push_back(argmax(out.order_logits));
    const Tensor swapped = batches[part].swapped.to(out.order_logits.value().device());
    return out.loss + cross_entropy(out.order_logits, swapped, sequences);
  };
  StepResult result = optimizer_step(optimizer, batches, loss, options);
  std::int64_t correct = 0, ordered = 0;
  for (const MaskedLmOutput& out : outputs) correct += count_equal(out.predictions, out.labels);
  for (std::size_t part = 0; part < orders.size(); ++part)
    ordered += count_equal(orders[part], batches[part].swapped);
  const std::vector<double> right =
      sum_over_processes(options, {static_cast<double>(correct), static_cast<double>(ordered)});
  result.accuracy = right[0] / chosen;
  if (order) result.figures.emplace_back("sentence_order_accuracy", right[1] / sequences);
  if (options.distillation)
    std::ranges::move(sum_of(shares, options.gradient_sum), std::back_inserter(result.figures));
  return result;
}

}  // namespace nystrom
