// Exponential moving average of a model's weights.
#pragma once

#include <functional>

#include "nn/scope.h"

namespace nystrom {

/// After every update of the parameters average ← decay · average + (1 − decay) · parameters (Polyak & Juditsky, 1992, with forgetting), in
/// the type of the masters. It starts as the parameters, so that nothing needs a correction.
class WeightAverage {
 public:
  /// `store` is allocated for training, has its first values, and outlives the average. `decay` is below 1; 0 averages nothing.
  WeightAverage(ParameterStore& store, double decay) : WeightAverage(store, decay, {0, store.slab_size()}, [] {}) {}
  /// The average of a range alone, of which the store keeps the masters. `share` brings everybody the values of the other ranges after
  /// those of this one were changed.
  WeightAverage(ParameterStore& store, double decay, SlabRange range, std::function<void()> share);

  void update();
  /// Runs f while the parameters and the average are exchanged. What f throws is thrown on; the parameters of other ranges then stay the
  /// average's.
  void while_exchanged(const std::function<void()>& f);
  /// The average, or the parameters while they are exchanged: the range of a slab laid out as the store's.
  Tensor slab() const { return slab_; }

 private:
  void exchange();

  ParameterStore& store_;
  double decay_;
  SlabRange range_;
  std::function<void()> share_;
  Tensor slab_;
};

}  // namespace nystrom
