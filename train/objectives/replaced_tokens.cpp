#include "train/objectives/replaced_tokens.h"

#include <algorithm>
#include <span>

#include "core/check.h"
#include "train/objectives/evaluation.h"

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

/// The sums as numbers in the order of `members`, and back.
void write(const ReplacedTokensSums& sums, std::span<double> numbers) {
  for (std::size_t i = 0; i < std::size(members); ++i) numbers[i] = sums.*members[i];
}
ReplacedTokensSums read(std::span<const double> numbers) {
  ReplacedTokensSums sums;
  for (std::size_t i = 0; i < std::size(members); ++i) sums.*members[i] = numbers[i];
  return sums;
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
  double masked = 0, tokens = 0;
  std::vector<Tensor> sample_ids;
  for (const Batch& batch : batches) {
    masked += static_cast<double>(batch.targets);
    tokens += static_cast<double>(batch.tokens);
    sample_ids.push_back(batch.sample_ids);
  }
  const std::vector<double> counts = sum_over_processes(options, {masked, tokens});
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
  std::vector<double> values(std::size(members));
  write(own, values);
  const ReplacedTokensSums all = read(sum_over_processes(options, values));
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
    write(sums_of(model.replaced_tokens(batch.input, batch.labels, {}, run), batch, {}), sums);
  };
  const ReplacedTokensSums all = read(sums_over_samples(
      samples, micro_batch_size, std::size(members), communicator, progress, measure));
  require_input(all.masked > 0, "the text holds no token to mask");
  return all;
}

}  // namespace nystrom
