#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon) {
  require(x.rank() >= 1 && x.dim(-1) >= 1, "layer_norm: needs a last axis of at least one element, got shape {}", x.shape());
  const Shape row{x.dim(-1)};
  require(gamma.shape() == row && beta.shape() == row, "layer_norm: gamma {} and beta {} do not fit x {}", gamma.shape(), beta.shape(),
          x.shape());
  require(x.dtype() == gamma.dtype() && x.dtype() == beta.dtype(), "layer_norm: x is {}, but gamma {} and beta {}", x.dtype(),
          gamma.dtype(), beta.dtype());
  const Tensor value = x.value().contiguous();
  const Shape rows{value.numel() / x.dim(-1)};
  const DType sums = accumulate_dtype(x.dtype());
  Tensor y = empty_like(value);
  Tensor mean = Tensor::empty(rows, sums, value.device()), rstd = Tensor::empty(rows, sums, value.device());
  kernels::layer_norm(value, gamma.value(), beta.value(), epsilon, y, mean, rstd);
  return record("layer_norm", y, {x, gamma, beta}, [value, g = gamma.value(), mean, rstd, row, sums](const Tensor& dy, Grads grads) {
    Tensor dx = empty_like(value);
    Tensor dgamma = Tensor::zeros(row, sums, value.device()), dbeta = Tensor::zeros(row, sums, value.device());
    kernels::layer_norm_grad(value, g, mean, rstd, dy, dx, dgamma, dbeta);
    grads.add(0, std::move(dx));
    grads.add(1, std::move(dgamma));
    grads.add(2, std::move(dbeta));
  });
}

}  // namespace nystrom
