#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {

Var sequence_conv(const Var& x, const Var& weight, const Tensor& valid) {
  require(x.rank() == 4, "sequence_conv: expected [b, n, h, d], got {}", x.shape());
  require(weight.rank() == 2 && weight.dim(0) == x.dim(2) && weight.dim(1) % 2 == 1,
          "sequence_conv: the weight is {}, expected [{}, k] with k odd", weight.shape(), x.dim(2));
  require(!valid.defined() ||
              (valid.shape() == Shape{x.dim(0), x.dim(1)} && valid.dtype() == DType::u8),
          "sequence_conv: the mask is {} {}, expected u8 [{}, {}]", valid.dtype(), valid.shape(),
          x.dim(0), x.dim(1));
  require(x.dtype() == weight.dtype(), "sequence_conv: x is {}, but the weight {}", x.dtype(),
          weight.dtype());
  const Tensor value =
      x.dim(3) <= 1 || x.value().stride(3) == 1 ? x.value() : x.value().contiguous();
  const Tensor mask = valid.to(value.device());
  Tensor y = Tensor::empty(x.shape(), x.dtype(), value.device());
  kernels::sequence_conv(value, weight.value(), mask, CView{}, y);
  return record("sequence_conv", y, {x, weight},
                [value, w = weight.value(), mask](const Tensor& dy, Grads grads) {
                  Tensor dx = Tensor::empty(value.shape(), value.dtype(), value.device());
                  grads.add_sums(
                      1, {w.shape()}, accumulate_dtype(w.dtype()), w.device(), [&](auto& dw) {
                        kernels::sequence_conv_grad(value, w, mask, dy, CView{}, dx, dw[0]);
                      });
                  grads.add(0, std::move(dx));
                });
}

}  // namespace nystrom
