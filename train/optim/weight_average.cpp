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
  const double decay =
      std::min(decay_, static_cast<double>(1 + number) / static_cast<double>(10 + number));
  // Frozen parameters keep their bits: rounding would change d · x + (1 − d) · x.
  for (const SlabRange& trained : store_.trained_ranges(range_)) {
    Tensor own = slab_.slice(0, trained.begin - range_.begin, trained.end - range_.begin);
    kernels::affine(own, decay, 0, own);
    kernels::accumulate(store_.masters(trained), 1 - decay, own);
  }
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
