#include "train/objectives/replaced_tokens.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "train/objectives/evaluation.h"

namespace nystrom {
namespace {

/// Adds a batch to sums of ReplacedTokensSums; its losses were divided by `scale`.
void add_to(std::span<double> sums, const ReplacedTokensOutput& out, const Batch& batch,
            const ReplacedTokensScale& scale) {
  using Sums = ReplacedTokensSums;
  sums[Sums::generator_loss] += out.generator_loss.item() * scale.masked;
  sums[Sums::discriminator_loss] += out.discriminator_loss.item() * scale.tokens;
  sums[Sums::masked] += static_cast<double>(batch.targets);
  sums[Sums::guessed] += static_cast<double>(out.guessed);
  sums[Sums::tokens] += static_cast<double>(batch.tokens);
  sums[Sums::replaced] += static_cast<double>(out.replaced);
  sums[Sums::found] += static_cast<double>(out.found);
  sums[Sums::right] += static_cast<double>(out.right);
}

}  // namespace

Metrics ReplacedTokensSums::metrics() const {
  return {{"discriminator_loss", of[discriminator_loss] / of[tokens]},
          {"generator_loss", of[generator_loss] / of[masked]},
          {"generator_accuracy", of[guessed] / of[masked]},
          {"replaced", of[replaced] / of[tokens]},
          {"recall", of[found] / std::max(of[replaced], 1.0)}};
}

StepResult replaced_tokens_step(Model& model, Optimizer& optimizer, std::span<const Batch> batches,
                                double weight, const StepOptions& options) {
  double masked = 0, tokens = 0;
  for (const Batch& batch : batches) {
    masked += static_cast<double>(batch.targets);
    tokens += static_cast<double>(batch.tokens);
  }
  const std::vector<double> counts = sum_over_processes(options, {masked, tokens});
  if (counts[0] == 0) return step_without_targets();
  const ReplacedTokensScale scale{counts[0], counts[1], weight};
  std::vector<ReplacedTokensOutput> outputs;
  const auto loss = [&](std::size_t part, const RunContext& run) {
    outputs.push_back(model.replaced_tokens(batches[part].input, batches[part].labels, scale, run));
    return std::exchange(outputs.back().loss, {});
  };
  StepResult result = optimizer_step(optimizer, batches, loss, options);
  ReplacedTokensSums own;
  for (std::size_t part = 0; part < outputs.size(); ++part)
    add_to(own.of, outputs[part], batches[part], scale);
  const ReplacedTokensSums all{sum_over_processes(options, own.of)};
  result.accuracy = all.accuracy();
  result.figures = all.metrics();
  return result;
}

ReplacedTokensSums evaluate_replaced_tokens(const Model& model, const MaskedSamples& samples,
                                            std::int64_t micro_batch_size,
                                            Communicator& communicator,
                                            const std::function<void(std::int64_t)>& progress) {
  const auto measure = [&](const Batch& batch, std::span<double> sums) {
    RunContext run;
    run.seed = samples.seed;
    run.sample_ids = batch.sample_ids;
    add_to(sums, model.replaced_tokens(batch.input, batch.labels, {}, run), batch, {});
  };
  ReplacedTokensSums all{sums_over_samples(
      samples, micro_batch_size, ReplacedTokensSums::quantities, communicator, progress, measure)};
  require_finite(all.of);
  require_input(all.of[ReplacedTokensSums::masked] > 0, "the text holds no token to mask");
  return all;
}

}  // namespace nystrom
