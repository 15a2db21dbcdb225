#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {

Var segment_means(const Var& x, const Tensor& valid, std::int64_t segments) {
  require(x.rank() == 3, "segment_means: expected [b, n, c], got {}", x.shape());
  require(segments >= 1, "segment_means: needs at least one segment, got {}", segments);
  require(
      !valid.defined() || (valid.shape() == x.shape().without(-1) && valid.dtype() == DType::u8),
      "segment_means: the mask is {} {}, expected u8 {}", valid.dtype(), valid.shape(),
      x.shape().without(-1));
  const Tensor value = x.value().contiguous(), mask = valid.to(value.device());
  Tensor y =
      Tensor::empty({x.dim(0), segments, x.dim(2)}, accumulate_dtype(x.dtype()), value.device());
  kernels::segment_means(value, mask, y);
  return record("segment_means", y, {x}, [shape = x.shape(), mask](const Tensor& dy, Grads grads) {
    auto dx = grads.into(0, shape, dy.device());
    if (!dx.accumulate) kernels::fill(dx.tensor, 0);
    kernels::segment_means_grad(dy, mask, dx.tensor);
  });
}

}  // namespace nystrom
