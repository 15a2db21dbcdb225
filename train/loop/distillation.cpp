#include "train/loop/distillation.h"

#include <numeric>

#include "core/check.h"

namespace nystrom {
namespace {

/// x. When the backward pass has reached x, it goes on from `loss` too, with gradient `scale`.
Var with_loss(const Var& x, const Var& loss, double scale) {
  const auto backward = [scale, like = loss.value()](const Tensor& dy, Grads grads) {
    grads.add(0, dy);
    grads.add(1, Tensor::full(like.shape(), scale, like.dtype(), like.device()));
  };
  return record("with_loss", x.value(), {x, loss}, backward, {.strided = true});
}

}  // namespace

struct DistillationPass::State {
  std::vector<std::int64_t> offsets;    // of the batch
  Tensor teacher_logits;                // until loss()
  std::vector<Tensor> targets, losses;  // of each layer's attention output
  Tensor masked_lm, logits;             // losses, [1]

  /// The rows of an attention output that are tokens: [r, hidden].
  Var token_rows(const Var& output) const {
    const Var rows = flat_rows(output);
    if (offsets.empty() || rows.dim(0) <= offsets.back()) return rows;
    // Padding is kept: all sequences have one length.
    const std::int64_t length = rows.dim(0) / (std::ssize(offsets) - 1);
    std::vector<std::int64_t> tokens;
    for (std::size_t i = 1; i < offsets.size(); ++i)
      for (std::int64_t t = 0; t < offsets[i] - offsets[i - 1]; ++t)
        tokens.push_back(static_cast<std::int64_t>(i - 1) * length + t);
    return gather_rows(rows, Tensor::from(tokens, {std::ssize(tokens)}));
  }
};

DistillationPass::DistillationPass(const Distillation& distillation, const Batch& batch,
                                   const StepTotals& totals)
    : distillation_(&distillation), totals_(totals), state_(std::make_shared<State>()) {
  const NoGrad constant;
  State& state = *state_;
  state.offsets = batch.input.offsets;
  std::vector<std::int64_t> masked;
  const auto* label = batch.labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < batch.labels.numel(); ++i)
    if (label[i] != ignore_index) masked.push_back(i);
  RunContext run;
  if (distillation.config.attention_output > 0)
    run.observe_attention_output = [&state](std::int64_t, Var& output) {
      state.targets.push_back(state.token_rows(output).value());
    };
  state.teacher_logits = distillation.teacher->masked_lm_logits(batch.input, masked, run).value();
  state.losses.resize(state.targets.size());
}

void DistillationPass::observe(RunContext& run) const {
  const double weight = distillation_->config.attention_output;
  if (weight == 0) return;
  run.observe_attention_output = [state = state_, totals = totals_, weight](std::int64_t layer,
                                                                            Var& output) {
    const auto i = static_cast<std::size_t>(layer);
    const bool last = i + 1 == state->targets.size();
    const DType sums = accumulate_dtype(output.dtype());
    const Var difference =
        cast(state->token_rows(output), sums) - Var(state->targets.at(i).cast(sums));
    const double count =
        (last ? totals.masked : totals.tokens) * static_cast<double>(output.dim(-1));
    const Var loss = sum(square(difference)) / count;
    state->losses[i] = loss.value();
    output = with_loss(output, loss, weight * totals.loss_scale);
  };
}

Var DistillationPass::loss(const MaskedLmOutput& student) {
  const DistillationConfig& config = distillation_->config;
  State& state = *state_;
  state.masked_lm = student.loss.value();
  Var loss = student.loss;
  if (config.logits > 0) {
    const Var divergence =
        distillation_loss(student.logits, state.teacher_logits, config.temperature, totals_.masked);
    state.logits = divergence.value();
    loss = loss + config.logits * divergence;
  }
  state.teacher_logits = {};
  for (const Tensor& value : state.losses) loss = loss + config.attention_output * Var(value);
  return loss;
}

DistilledShare DistillationPass::parts() const {
  return {state_->masked_lm, state_->logits, state_->losses};
}

Metrics sum_of(const std::vector<DistilledShare>& shares, GradientSum* gradient_sum) {
  std::vector<double> masked_lm, logits, attention;
  for (const DistilledShare& share : shares) {
    masked_lm.push_back(share.masked_lm.item());
    logits.push_back(share.logits.defined() ? share.logits.item() : 0);
    attention.push_back(0);
    for (const Tensor& layer : share.attention_output) attention.back() += layer.item();
  }
  const auto total = [&](const std::vector<double>& own) {
    const std::vector<double> all = gradient_sum ? gradient_sum->losses_of_all(own) : own;
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  return {{"masked_lm_loss", total(masked_lm)},
          {"distillation_logits", total(logits)},
          {"distillation_attention_output", total(attention)}};
}

}  // namespace nystrom
