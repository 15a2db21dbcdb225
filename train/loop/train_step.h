// One optimizer step: what `bench`, the training trace and the training loop all run.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "nn/model.h"
#include "train/distributed/gradient_sum.h"
#include "train/optim/optimizer.h"

namespace nystrom {

struct StepOptions {
  double learning_rate = 1e-4;
  std::optional<double> clip_norm;  ///< largest gradient norm
  double loss_scale = 1;  ///< gradients are computed times this, a power of two, and divided by it
                          ///< where they are used
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< with seed and sample ids decides dropout
  bool dropout = true;
  bool activation_checkpointing = false;
  /// For RunContext::observe_attention, in the first micro-batch.
  std::function<void(const AttentionInputs&, Var& output)> observe_attention = {};
  GradientSum* gradient_sum = nullptr;  ///< with the other processes; null: nobody started others
};

struct StepResult {
  double loss;                       ///< mean over what is learned from in all micro-batches
  double gradient_norm;              ///< before clipping, of the loss as it is
  bool skipped;                      ///< the gradient was not finite: nothing was updated
  std::optional<double> accuracy{};  ///< share of masked tokens that were predicted right; tasks
                                     ///< count it in evaluations alone
  std::optional<double>
      order_accuracy{};  ///< share of sequences whose segments' order was told right
};

/// Number of equal values of two i64 tensors of one shape.
std::int64_t count_equal(const Tensor& a, const Tensor& b);

/// The argmax class of each row: logits [r, c] → [r] i64.
Tensor argmax(const Var& logits);

/// The part of the step's loss that micro-batch `part` has: [1]; the parts add up to it.
using PartOfLoss = std::function<Var(std::size_t part, const RunContext& run)>;

/// Loss and backward of each micro-batch, clipping by global norm (as
/// torch.nn.utils.clip_grad_norm_: scale min(1, clip / (norm + 1e-6))) and the update. `sample_ids`
/// holds each micro-batch's. With a gradient_sum the micro-batches are this process's part of the
/// step, and the result is the whole step's, the same in all processes.
StepResult optimizer_step(Optimizer& optimizer, std::span<const Tensor> sample_ids,
                          const PartOfLoss& loss, const StepOptions& options);

/// optimizer_step on the masked-LM loss, normalised by the tokens chosen in all micro-batches of
/// all processes, plus with a sentence-order head its cross-entropy, normalised by the sequences.
/// Throws when no token is chosen.
StepResult train_step(Model& model, Optimizer& optimizer, std::span<const Batch> batches,
                      const StepOptions& options);

}  // namespace nystrom
