// Exponential moving average of a model's weights.
#pragma once

#include <functional>

#include "nn/parameter_store.h"

namespace nystrom {

/// After update t of the parameters, from 1: average ← d · average + (1 − d) · parameters, in the
/// type of the masters (Polyak & Juditsky, 1992, with forgetting). d = min(decay, (1 + t) / (10 +
/// t)): with a constant one the first parameters would weigh decayᵗ, most of the average of a run
/// shorter than 1 / (1 − decay) updates; so they weigh less than (10 / t)⁹.
class WeightAverage {
 public:
  /// `store` is allocated for training, has its first values, and outlives the average. `decay` is
  /// below 1; 0 averages nothing.
  WeightAverage(ParameterStore& store, double decay)
      : WeightAverage(store, decay, {0, store.slab_size()}, [] {}) {}
  /// The average of a range alone, of which the store keeps the masters. `share` brings everybody
  /// the values of the other ranges after those of this one were changed.
  WeightAverage(ParameterStore& store, double decay, SlabRange range, std::function<void()> share);

  /// Takes up the parameters after update `number` of them, at least 1.
  void update(std::int64_t number);
  /// Runs f while the parameters and the average are exchanged. What f throws is thrown on; the
  /// parameters of other ranges then stay the average's.
  void with_average(const std::function<void()>& f);
  /// The average, or the parameters while they are exchanged: the range of a slab laid out as the
  /// store's.
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
