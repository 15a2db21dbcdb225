#include "train/optimizer.h"

#include <cmath>

#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {

AdamW::AdamW(ParameterStore& store, const OptimizerConfig& config) : store_(store), config_(config), segments_(store.segments()) {
  require(store.gradients().defined(), "AdamW needs a parameter store that was allocated for training");
  require(config.betas.size() == 2, "AdamW needs two betas, got {}", config.betas.size());
  const AllocationLabel label("optimizer moments");
  moment1_ = zeros_like(store.masters());
  moment2_ = zeros_like(store.masters());
}

double AdamW::gradient_norm() const {
  Tensor squares = Tensor::empty({1}, DType::f64, store_.gradients().device());
  kernels::sum_of_squares(store_.gradients(), squares);
  return std::sqrt(squares.item());
}

void AdamW::step(double learning_rate, double gradient_scale) {
  ++steps_taken_;
  const auto t = static_cast<double>(steps_taken_);
  const double beta1 = config_.betas[0], beta2 = config_.betas[1];
  Tensor masters = store_.masters(), low;
  if (store_.dtype() != masters.dtype()) low = store_.values();
  kernels::adamw(
      masters, store_.gradients(), moment1_, moment2_, low, segments_.end, segments_.decay,
      {learning_rate, beta1, beta2, config_.epsilon, config_.weight_decay, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t), gradient_scale});
}

void AdamW::zero_gradients() { kernels::fill(store_.gradients(), 0); }

}  // namespace nystrom
