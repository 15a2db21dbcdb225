#include "autograd/ops/sum_to.h"

#include "core/kernels.h"

namespace nystrom {

Tensor sum_to(Tensor grad, const Shape& shape) {
  while (grad.shape() != shape) {
    int axis = 0;
    if (grad.rank() == shape.rank())
      while (grad.dim(axis) == shape[axis]) ++axis;
    const Shape before = grad.shape();
    std::int64_t outer = 1, inner = 1;
    for (int i = 0; i < axis; ++i) outer *= before[i];
    for (int i = axis + 1; i < before.rank(); ++i) inner *= before[i];
    const bool extra_axis = before.rank() > shape.rank();
    Tensor sum = Tensor::empty({outer, inner}, grad.dtype(), grad.device());
    kernels::sum_middle(grad.contiguous().reshape({outer, before[axis], inner}), sum, false);
    grad = sum.reshape(extra_axis ? before.without(axis) : before.without(axis).with(axis, 1));
  }
  return grad;
}

}  // namespace nystrom
