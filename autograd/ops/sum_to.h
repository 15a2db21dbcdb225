// The gradient of broadcasting.
#pragma once

#include "core/tensor.h"

namespace nystrom {

/// `grad` summed over the axes along which a tensor of `shape` was broadcast to grad's shape.
Tensor sum_to(Tensor grad, const Shape& shape);

}  // namespace nystrom
