// Distillation: the losses of a student against a teacher, a masked language model with exact
// attention that sees the same batches.
//
//   loss = masked-LM loss + logits · L + attention_output · A
//
// L is temperature² · KL(teacher ‖ student) at the masked tokens, as a mean over them
// (distillation_loss in autograd/ops.h). A is the sum over the layers of the mean squared error of
// the attention block's output, after its projection and before dropout and residual. The mean is
// over the width and over tokens: in the last layer over the masked tokens, elsewhere over all
// tokens without padding.
#pragma once

#include <memory>
#include <vector>

#include "nn/model.h"
#include "train/config/config.h"
#include "train/distributed/gradient_sum.h"
#include "train/loop/metrics.h"

namespace nystrom {

/// A teacher and the weights of its losses.
struct Distillation {
  DistillationConfig config;
  /// A masked language model, allocated for inference. With config.attention_output it has the
  /// student's number of layers and width.
  std::unique_ptr<const Model> teacher;
};

/// Numbers of a whole step, over all micro-batches of all processes.
struct StepTotals {
  double masked, tokens;  ///< masked tokens, and tokens without padding
  double loss_scale;      ///< StepOptions::loss_scale
};

/// The parts of a micro-batch's share, [1] each on the device.
struct DistilledShare {
  Tensor masked_lm;
  Tensor logits;                         ///< undefined with a weight of 0
  std::vector<Tensor> attention_output;  ///< of each layer; none with a weight of 0
};

/// The teacher's pass over one micro-batch, and the student's losses against it.
class DistillationPass {
 public:
  /// Runs the teacher, without dropout and without gradient.
  DistillationPass(const Distillation& distillation, const Batch& batch, const StepTotals& totals);

  /// Lets the student's pass in context `run` compute the losses of attention outputs. Their
  /// gradients start at the outputs, in the backward pass of the loss; the values of the losses are
  /// constants. Activation checkpointing, whose inner values are no Vars, permits nothing else.
  void observe(RunContext& run) const;
  /// The micro-batch's share of the step's loss, from the output of the student's pass.
  Var loss(const MaskedLmOutput& student);
  /// The parts of that share, after loss().
  DistilledShare parts() const;

 private:
  struct State;
  const Distillation* distillation_;
  StepTotals totals_;
  std::shared_ptr<State> state_;  // shared with the tape, which keeps the teacher's outputs
};

/// The parts of a step's loss, without their weights: masked_lm_loss, distillation_logits,
/// distillation_attention_output. Each is the sum over the micro-batches of all processes, in their
/// order. `gradient_sum` is null for a single process.
Metrics sum_of(const std::vector<DistilledShare>& shares, GradientSum* gradient_sum);

}  // namespace nystrom
