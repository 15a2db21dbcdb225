// Exponential moving average of a model's weights.
#pragma once

#include <optional>

#include "nn/scope.h"

namespace nystrom {

/// After every update of the parameters average ← decay · average + (1 − decay) · parameters (Polyak & Juditsky, 1992, with forgetting), in
/// the type of the masters and laid out as they are. It starts as the parameters, so that nothing needs a correction.
class WeightAverage {
 public:
  /// `store` is allocated for training, has its first values, and outlives the average. `decay` is below 1; 0 averages nothing.
  WeightAverage(ParameterStore& store, double decay);

  void update();
  /// Exchanges the parameters and the average.
  void swap();
  /// The average, or the parameters while they are exchanged: a slab laid out as the store's.
  Tensor slab() const { return slab_; }

 private:
  ParameterStore& store_;
  double decay_;
  Tensor slab_;
};

/// While it lives, a model has its averaged weights. Does nothing where there is no average.
class WithAveragedWeights {
 public:
  explicit WithAveragedWeights(std::optional<WeightAverage>& average) : average_(average) {
    if (average_) average_->swap();
  }
  ~WithAveragedWeights() {
    if (average_) average_->swap();
  }
  WithAveragedWeights(const WithAveragedWeights&) = delete;
  WithAveragedWeights& operator=(const WithAveragedWeights&) = delete;

 private:
  std::optional<WeightAverage>& average_;
};

}  // namespace nystrom
