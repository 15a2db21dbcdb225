// Exponential moving average of a model's weights.
#pragma once

#include <functional>

#include "nn/parameter_store.h"

namespace nystrom {

/// After update t of the parameters, from 1: average ← d · average + (1 − d) · parameters, in the
/// type of the masters. It is the average of Polyak & Juditsky (1992) with forgetting, where d =
/// min(decay, (1 + t) / (10 + t)).
///
/// With a constant d, the first parameters would have weight decayᵗ, which dominates runs shorter
/// than 1 / (1 − decay) updates. Here their weight is below (10 / t)⁹.
class WeightAverage {
 public:
  /// `store` must be allocated for training, have its first values, and outlive the average.
  /// `decay` is below 1; 0 averages nothing.
  WeightAverage(ParameterStore& store, double decay)
      : WeightAverage(store, decay, {0, store.slab_size()}, [] {}) {}
  /// The average of one range, whose masters the store keeps. `share` distributes the values of all
  /// ranges after the parameters of this one have changed.
  WeightAverage(ParameterStore& store, double decay, SlabRange range, std::function<void()> share);

  /// Averages in the parameters after update `number`, from 1.
  void update(std::int64_t number);
  /// Runs f while parameters and average are exchanged. Exceptions of f pass through; the
  /// parameters of other ranges then keep the average's values.
  void with_average(const std::function<void()>& f);
  /// The average, laid out as this range of the store's slabs. While exchanged, it holds the
  /// parameters.
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
