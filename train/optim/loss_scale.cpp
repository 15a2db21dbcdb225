#include "train/optim/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace nystrom {

bool LossScale::explains_skip(double loss) const { return value_ > least && std::isfinite(loss); }

void LossScale::update(bool finite) {
  finite_steps_ = finite ? finite_steps_ + 1 : 0;
  if (!finite) {
    value_ = std::max(value_ / 2, least);
  } else if (finite_steps_ == growth_interval) {
    value_ *= 2;
    finite_steps_ = 0;
  }
}

}  // namespace nystrom
