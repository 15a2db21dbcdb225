#include "train/optim/weight_average.h"

#include <algorithm>

#include "core/check.h"
#include "core/kernels.h"

namespace nystrom {

WeightAverage::WeightAverage(ParameterStore& store, double decay, SlabRange range,
                             std::function<void()> share)
    : store_(store), decay_(decay), range_(range), share_(std::move(share)) {
  require(decay >= 0 && decay < 1, "WeightAverage: decay {} is not at least 0 and below 1", decay);
  const AllocationLabel label("weight average");
  slab_ = store.masters(range).clone();
}

void WeightAverage::update(std::int64_t number) {
  require(number >= 1, "WeightAverage: update {} is not at least 1", number);
  if (range_.size() == 0) return;
  const double decay =
      std::min(decay_, static_cast<double>(1 + number) / static_cast<double>(10 + number));
  kernels::affine(slab_, decay, 0, slab_);
  kernels::accumulate(store_.masters(range_), 1 - decay, slab_);
}

void WeightAverage::with_average(const std::function<void()>& f) {
  exchange();
  share_();
  try {
    f();
  } catch (...) {
    exchange();  // without share: other processes may have failed elsewhere
    throw;
  }
  exchange();
  share_();
}

void WeightAverage::exchange() {
  if (range_.size() == 0) return;
  Tensor masters = store_.masters(range_);
  const Tensor average = slab_.clone();
  kernels::copy(masters, slab_);
  kernels::copy(average, masters);
  store_.round_masters();
}

}  // namespace nystrom
