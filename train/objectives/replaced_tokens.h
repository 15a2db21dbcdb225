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
  enum Quantity {
    generator_loss,      ///< over masked tokens
    discriminator_loss,  ///< over all tokens
    masked,
    guessed,  ///< ReplacedTokensOutput::guessed, of the masked tokens
    tokens,
    replaced,
    found,
    right,
    quantities
  };
  std::vector<double> of = std::vector<double>(quantities);

  /// The share of tokens that the discriminator judges rightly.
  double accuracy() const { return of[right] / of[tokens]; }
  /// The accuracy of taking every token for the original.
  double baseline() const { return 1 - of[replaced] / of[tokens]; }
  /// The mean losses with the discriminator's weight: that of training.
  double loss(double weight) const {
    return of[generator_loss] / of[masked] + weight * of[discriminator_loss] / of[tokens];
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
