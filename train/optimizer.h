// AdamW over the slabs of a parameter store.
#pragma once

#include "nn/scope.h"
#include "train/config.h"

namespace nystrom {

/// Adam with decoupled weight decay (Loshchilov & Hutter, arXiv 1711.05101), as torch.optim.AdamW computes it, over all parameters in one
/// pass. Biases and LayerNorm do not decay. Moments are kept in the type of the masters.
class AdamW {
 public:
  /// `store` is allocated for training and outlives the optimizer.
  AdamW(ParameterStore& store, const OptimizerConfig& config);

  /// The Euclidean norm of all gradients, in f64.
  double gradient_norm() const;
  /// Updates parameters from their gradients times `gradient_scale`. The step number, from 1, corrects the moments' bias.
  void step(double learning_rate, double gradient_scale);
  void zero_gradients();

  std::int64_t steps_taken() const { return steps_taken_; }

  /// The state to save and to continue from: both moments, as slabs laid out as the store's.
  Tensor moment1() const { return moment1_; }
  Tensor moment2() const { return moment2_; }
  void set_steps_taken(std::int64_t steps) { steps_taken_ = steps; }

 private:
  ParameterStore& store_;
  OptimizerConfig config_;
  ParameterStore::Segments segments_;
  Tensor moment1_, moment2_;
  std::int64_t steps_taken_ = 0;
};

}  // namespace nystrom
