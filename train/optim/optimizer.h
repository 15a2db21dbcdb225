// AdamW and LAMB over the slabs of a parameter store.
#pragma once

#include <optional>

#include "nn/parameter_store.h"
#include "train/optim/options.h"

namespace nystrom {

/// What a gradient of this norm is multiplied by so that its norm is at most `limit`, as
/// torch.nn.utils.clip_grad_norm_ does: min(1, limit / (norm + 1e-6)).
double clip_factor(double norm, double limit);

/// Adam with decoupled weight decay (Loshchilov & Hutter, arXiv 1711.05101), as torch.optim.AdamW
/// computes it, over all parameters in one pass. Biases and LayerNorm do not decay. Moments are
/// kept in the type of the masters.
///
/// With the name lamb (You et al., ICLR 2020, arXiv 1904.00962, algorithm 2) each parameter moves
/// by the learning rate times ‖p‖ / ‖u‖ times its AdamW update u, weight decay included; the factor
/// is 1 where a norm is 0. Parameters that do not decay move as under AdamW.
class Optimizer {
 public:
  /// `store` is allocated for training and outlives the optimizer. With a range it holds moments
  /// of, and updates, that range alone, of which the store keeps the masters; lamb takes none: it
  /// needs whole parameters.
  Optimizer(ParameterStore& store, const OptimizerOptions& options,
            std::optional<SlabRange> range = {});

  /// The Euclidean norm of all gradients, in f64.
  double gradient_norm() const;
  /// Updates parameters from their gradients times `gradient_scale`. The step number, from 1,
  /// corrects the moments' bias.
  void step(double learning_rate, double gradient_scale = 1);
  void zero_gradients();

  std::int64_t steps_taken() const { return steps_taken_; }

  SlabRange range() const { return range_; }
  /// The state to save and to continue from: both moments, laid out as the store's slabs in
  /// range().
  Tensor moment1() const { return moment1_; }
  Tensor moment2() const { return moment2_; }
  void set_steps_taken(std::int64_t steps) { steps_taken_ = steps; }

 private:
  void adamw(Tensor& parameters, Tensor low, double learning_rate, double gradient_scale);
  void lamb(double learning_rate, double gradient_scale);
  std::vector<double> trust_ratios(const Tensor& updates) const;

  ParameterStore& store_;
  OptimizerOptions options_;
  SlabRange range_;
  ParameterStore::Segments segments_;
  Tensor moment1_, moment2_;
  Tensor updates_;  // of LAMB alone
  std::int64_t steps_taken_ = 0;
};

}  // namespace nystrom
