#include "train/weight_average.h"

#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {

WeightAverage::WeightAverage(ParameterStore& store, double decay) : store_(store), decay_(decay) {
  require(decay >= 0 && decay < 1, "WeightAverage: decay {} is not at least 0 and below 1", decay);
  const AllocationLabel label("weight average");
  slab_ = store.masters().clone();
}

void WeightAverage::update() {
  kernels::affine(slab_, decay_, 0, slab_);
  kernels::accumulate(store_.masters(), 1 - decay_, slab_);
}

void WeightAverage::swap() {
  Tensor masters = store_.masters();
  const Tensor average = slab_.clone();
  kernels::copy(masters, slab_);
  kernels::copy(average, masters);
  store_.round_masters();
}

}  // namespace nystrom
