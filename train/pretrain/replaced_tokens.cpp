#include "train/pretrain/replaced_tokens.h"

#include <algorithm>
#include <array>

#include "core/base/interruption.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr double ReplacedTokensSums::*members[] = {
    &ReplacedTokensSums::generator_loss, &ReplacedTokensSums::discriminator_loss,
    &ReplacedTokensSums::masked,         &ReplacedTokensSums::guessed,
    &ReplacedTokensSums::tokens,         &ReplacedTokensSums::replaced,
    &ReplacedTokensSums::found,          &ReplacedTokensSums::right};

/// The counts of a batch with `masked` targets; the losses were divided by `scale`.
ReplacedTokensSums sums_of(const ReplacedTokensOutput& out, const Batch& batch,
                           const ReplacedTokensScale& scale) {
  return {out.generator_loss.item() * scale.masked, out.discriminator_loss.item() * scale.tokens,
          static_cast<double>(batch.targets),       static_cast<double>(out.guessed),
          static_cast<double>(batch.tokens),        static_cast<double>(out.replaced),
          static_cast<double>(out.found),           static_cast<double>(out.right)};
}

}  // namespace

void ReplacedTokensSums::operator+=(const ReplacedTokensSums& other) {
  for (const auto member : members) this->*member += other.*member;
}

Metrics ReplacedTokensSums::metrics() const {
  return {{"discriminator_loss", discriminator_loss / tokens},
          {"generator_loss", generator_loss / masked},
          {"generator_accuracy", guessed / masked},
          {"replaced", replaced / tokens},
          {"recall", found / std::max(replaced, 1.0)}};
}

StepResult replaced_tokens_step(Model& model, Optimizer& optimizer, std::span<const Batch> batches,
                                double weight, const StepOptions& options) {
  const auto over_processes = [&](const std::vector<double>& own) {
    return options.gradient_sum ? options.gradient_sum->communicator().sum(own) : own;
  };
  double masked = 0, tokens = 0;
  std::vector<Tensor> sample_ids;
  for (const Batch& batch : batches) {
    masked += static_cast<double>(batch.targets);
    tokens += static_cast<double>(batch.tokens);
    sample_ids.push_back(batch.sample_ids);
  }
  const std::vector<double> counts = over_processes({masked, tokens});
  require_masked_tokens(counts[0]);
  const ReplacedTokensScale scale{counts[0], counts[1], weight};
  ReplacedTokensSums own;
  const auto loss = [&](std::size_t part, const RunContext& run) {
    ReplacedTokensOutput out =
        model.replaced_tokens(batches[part].input, batches[part].labels, scale, run);
    own += sums_of(out, batches[part], scale);
    return std::move(out.loss);
  };
  StepResult result = optimizer_step(optimizer, sample_ids, loss, options);
  std::vector<double> values;
  for (const auto member : members) values.push_back(own.*member);
  values = over_processes(values);
  ReplacedTokensSums all;
  for (std::size_t i = 0; i < values.size(); ++i) all.*members[i] = values[i];
  result.accuracy = all.accuracy();
  result.figures = all.metrics();
  return result;
}

ReplacedTokensSums evaluate_replaced_tokens(const Model& model, const MaskedSamples& samples,
                                            std::int64_t micro_batch_size,
                                            Communicator& communicator,
                                            const std::function<void(std::int64_t)>& progress) {
  LoaderOptions options{micro_batch_size, micro_batch_size};
  options.rank = communicator.rank();
  options.world_size = communicator.size();
  EvaluationLoader loader(samples, options);
  const std::int64_t total = samples.packing->size(),
                     batches = (total + micro_batch_size - 1) / micro_batch_size;
  // The sums of each batch stand at its number, so that they are added in the same order by any
  // number of processes.
  std::vector<double> found(static_cast<std::size_t>(batches) * std::size(members), 0);
  for (std::int64_t number = options.rank; const auto batch = loader.next();
       number += options.world_size) {
    check_interruption();
    RunContext run;
    run.seed = samples.seed;
    run.sample_ids = batch->sample_ids;
    const ReplacedTokensSums sums =
        sums_of(model.replaced_tokens(batch->input, batch->labels, {}, run), *batch, {});
    for (std::size_t i = 0; i < std::size(members); ++i)
      found[static_cast<std::size_t>(number) * std::size(members) + i] = sums.*members[i];
    if (progress) progress(std::min((number + options.world_size) * micro_batch_size, total));
  }
  found = communicator.sum(found);
  ReplacedTokensSums all;
  for (std::size_t i = 0; i < found.size(); ++i) all.*members[i % std::size(members)] += found[i];
  require_input(all.masked > 0, "the text holds no token to mask");
  return all;
}

}  // namespace nystrom
