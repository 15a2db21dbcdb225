// One optimizer step: what `bench`, the training trace and the training loop all run.
#pragma once

#include <optional>
#include <span>

#include "nn/model.h"
#include "train/optimizer.h"

namespace nystrom {

/// The part of a batch that is computed at once.
struct MicroBatch {
  ModelInput input;
  Tensor labels;      ///< [b, n] i64, ignored_label where nothing is asked
  Tensor sample_ids;  ///< [b] i64, global within the step: decides dropout
};

struct StepOptions {
  double learning_rate = 1e-4;
  std::optional<double> clip_norm;  ///< largest gradient norm
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< with seed and sample ids decides dropout
  bool dropout = true;
  bool activation_checkpointing = false;
};

struct StepResult {
  double loss;           ///< mean over the chosen tokens of all micro-batches
  double accuracy;       ///< share of the chosen tokens that were predicted right
  double gradient_norm;  ///< before clipping
  bool skipped;          ///< the gradient was not finite: nothing was updated
};

/// Number of equal values of two i64 tensors of one shape.
std::int64_t count_equal(const Tensor& a, const Tensor& b);

/// Masked-LM loss over all micro-batches, normalised by the tokens chosen in all of them, backward, clipping by global norm (as
/// torch.nn.utils.clip_grad_norm_: scale min(1, clip / (norm + 1e-6))) and AdamW. Throws when no token is chosen.
StepResult train_step(Model& model, AdamW& optimizer, std::span<const MicroBatch> batches, const StepOptions& options);

}  // namespace nystrom
