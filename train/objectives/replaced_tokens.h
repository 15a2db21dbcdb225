// Replaced-token detection (Clark et al., "ELECTRA: Pre-training Text Encoders as Discriminators
// Rather Than Generators", ICLR 2020): steps and evaluation.
#pragma once

#include "data/pretraining/loader.h"
#include "train/distributed/communicator.h"
#include "train/loop/metrics.h"
#include "train/loop/train_step.h"

namespace nystrom {

/// Runs optimizer_step with the loss of Model::replaced_tokens: the mean of the generator's over
/// the masked tokens of all micro-batches of all processes, plus `weight` times the mean of the
/// discriminator's over all tokens. The accuracy is the share of tokens that it judges rightly; the
/// other figures are those of ReplacedTokensSums.
StepResult replaced_tokens_step(Model& model, Optimizer& optimizer, std::span<const Batch> batches,
                                double weight, const StepOptions& options);

/// Sums over batches.
struct ReplacedTokensSums {
  double generator_loss = 0, discriminator_loss = 0;  ///< over masked tokens, over all tokens
  double masked = 0, guessed = 0;  ///< ReplacedTokensOutput::guessed, and of how many
  double tokens = 0, replaced = 0, found = 0, right = 0;

  void operator+=(const ReplacedTokensSums& other);
  /// The share of tokens that the discriminator judges rightly.
  double accuracy() const { return right / tokens; }
  /// The mean losses with the discriminator's weight: that of training.
  double loss(double weight) const {
    return generator_loss / masked + weight * discriminator_loss / tokens;
  }
  /// discriminator_loss; generator_loss; generator_accuracy; replaced, the share of tokens in whose
  /// place another one stands; recall, the share of these that the discriminator finds.
  Metrics metrics() const;
};

/// Evaluates each sample once, as evaluate_masked_lm does, with draws of step 0.
ReplacedTokensSums evaluate_replaced_tokens(const Model& model, const MaskedSamples& samples,
                                            std::int64_t micro_batch_size,
                                            Communicator& communicator,
                                            const std::function<void(std::int64_t)>& progress = {});

}  // namespace nystrom
