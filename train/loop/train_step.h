// One optimizer step, as `bench`, the training trace and the training loop run it.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "nn/model.h"
#include "train/distributed/gradient_sum.h"
#include "train/loop/distillation.h"
#include "train/loop/metrics.h"
#include "train/optim/optimizer.h"

namespace nystrom {

/// The options of one step.
struct StepOptions {
  double learning_rate = 1e-4;
  /// The largest gradient norm; null: no clipping.
  std::optional<double> clip_norm;
  /// The loss is multiplied by this power of two before the backward pass, and gradients are
  /// divided by it where they are used.
  double loss_scale = 1;
  std::uint64_t seed = 0;
  /// The step number. Together with seed and sample ids it decides the dropout masks.
  std::uint64_t step = 0;
  bool dropout = true;
  bool activation_checkpointing = false;
  double z_loss = 0;  ///< RunContext::z_loss
  /// The RunContext::observe_attention of the first micro-batch.
  std::function<void(const AttentionInputs&, Var& output)> observe_attention = {};
  /// Adds up gradients over the processes, or in a fixed order. Null: a single process adds them up
  /// as they come.
  GradientSum* gradient_sum = nullptr;
  /// Of train_step: adds the losses of a teacher. Null: none.
  const Distillation* distillation = nullptr;
};

/// The result of one step.
struct StepResult {
  /// The mean loss over the targets of all micro-batches.
  double loss;
  /// The norm of the unscaled loss's gradient, before clipping.
  double gradient_norm;
  /// Whether the step was skipped, and changed nothing: its gradient was not finite, or it has no
  /// targets.
  bool skipped;
  /// The share of masked tokens that were predicted correctly, or of all tokens that were judged
  /// rightly (replaced tokens). Tasks compute it in evaluations only.
  std::optional<double> accuracy{};
  /// Further figures, for the record of the step: of the objective, of distillation (sum_of).
  Metrics figures{};
  std::int64_t tokens = 0;  ///< of the step's batches
  /// Not empty: the data of this step and the next ones is of another kind, as the text says. Loss
  /// and speed are not comparable with those before.
  std::string new_stage{};
  bool has_targets = true;  ///< something to predict; a step without has no loss (NaN)
};

/// The number of equal values in two i64 tensors of one shape.
std::int64_t count_equal(const Tensor& a, const Tensor& b);

/// The argmax class of each row: logits [r, c] → [r] i64.
Tensor argmax(const Var& logits);

/// The share of the step's loss that micro-batch `part` contributes, [1]. The step's loss is the
/// sum of all parts.
using PartOfLoss = std::function<Var(std::size_t part, const RunContext& run)>;

/// Runs loss and backward pass of each micro-batch, clips the gradient by its global norm, and
/// updates the parameters. Clipping is that of torch.nn.utils.clip_grad_norm_: a factor of min(1,
/// clip / (norm + 1e-6)). With a gradient_sum, the micro-batches `batches` are this process's part
/// of the step. The result is that of the whole step and the same in all processes, but for
/// `tokens`.
StepResult optimizer_step(Optimizer& optimizer, std::span<const Batch> batches,
                          const PartOfLoss& loss, const StepOptions& options);

/// The sums of `own` numbers over the processes of a step.
std::vector<double> sum_over_processes(const StepOptions& options, const std::vector<double>& own);

/// The result of a step without anything to predict, in any process: none of its tokens can be
/// masked, or none of its words has a token.
StepResult step_without_targets();

/// Runs optimizer_step with the masked-LM loss, normalised by the number of masked tokens in all
/// micro-batches of all processes. A sentence-order head adds its cross-entropy, normalised by the
/// number of sequences, and the figure sentence_order_accuracy; options.distillation adds its
/// losses. A step without a masked token is skipped.
StepResult train_step(Model& model, Optimizer& optimizer, std::span<const Batch> batches,
                      const StepOptions& options);

}  // namespace nystrom
