#include "autograd/ops.h"
#include "autograd/ops/sum_to.h"
#include "core/check.h"

namespace nystrom {
namespace {

/// dst (+)= a b.
void multiply_into(Grads::Destination destination, const Tensor& a, const Tensor& b,
                   Precision precision) {
  kernels::matmul(a, b, CView{}, destination.tensor, destination.accumulate, precision);
}

/// The common part of both functions; `out_type` is the result's type.
Var product(const Var& x, const Var& weight, const Var& bias, Precision precision, DType out_type) {
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1),
          "linear: x {} does not fit the weight {}; expected [out, in] for x […, in]", x.shape(),
          weight.shape());
  require(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
          "linear: bias {} does not fit the weight {}", bias.shape(), weight.shape());
  require(x.dtype() == weight.dtype(), "linear: x is {}, but the weight {}", x.dtype(),
          weight.dtype());
  const std::int64_t in = weight.dim(1), out = weight.dim(0);
  const std::int64_t rows = in == 0 ? 0 : x.value().numel() / in;
  const Tensor flat = x.value().contiguous().reshape({rows, in});
  Tensor y = Tensor::empty(x.shape().without(-1).append(out), out_type, x.value().device());
  // A bias has the result's type, because libraries differ in other types that they accept.
  const Tensor shift = bias.defined() ? bias.value().cast(out_type) : Tensor();
  kernels::matmul(flat, weight.value().transpose(0, 1), shift, y.reshape({rows, out}), false,
                  precision);
  return record(
      "linear", y, {x, weight, bias},
      [flat, w = weight.value(), x_shape = x.shape(), precision](const Tensor& dy, Grads grads) {
        const Tensor dflat = dy.cast(w.dtype()).reshape({flat.dim(0), w.dim(0)});
        if (grads.wants(0)) {
          auto dx = grads.into(0, x_shape, dy.device());
          dx.tensor = dx.tensor.reshape(flat.shape());
          multiply_into(dx, dflat, w, precision);
        }
        if (grads.wants(1))
          multiply_into(grads.into(1, w.shape(), dy.device()), dflat.transpose(0, 1), flat,
                        precision);
        if (grads.wants(2)) {
          const auto db = grads.into(2, {w.dim(0)}, dy.device());
          Tensor row = db.tensor.reshape({1, w.dim(0)});
          kernels::sum_middle(dflat.reshape({1, flat.dim(0), w.dim(0)}), row, db.accumulate);
        }
      });
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, Precision precision) {
  return product(x, weight, bias, precision, x.dtype());
}

Var linear_unrounded(const Var& x, const Var& weight, const Var& bias) {
  return product(x, weight, bias, Precision::full, accumulate_dtype(x.dtype()));
}

Var matmul(const Var& a, const Var& b) {
  require(a.rank() >= 2 && b.rank() >= 2 && a.dim(-1) == b.dim(-2),
          "matmul: {} times {} does not go; expected […, m, k] and […, k, n]", a.shape(),
          b.shape());
  require(a.dtype() == b.dtype(), "matmul: both inputs must have one type; got {} and {}",
          a.dtype(), b.dtype());
  const Shape batch =
      broadcast(a.shape().without(-1).without(-1), b.shape().without(-1).without(-1));
  Tensor y =
      Tensor::empty(batch.append(a.dim(-2)).append(b.dim(-1)), a.dtype(), a.value().device());
  kernels::matmul(a.value(), b.value(), CView{}, y, false, Precision::full);
  return record(
      "matmul", y, {a, b}, [x = a.value(), w = b.value(), batch](const Tensor& dy, Grads grads) {
        if (grads.wants(0)) {
          Tensor dx =
              Tensor::empty(batch.append(x.dim(-2)).append(x.dim(-1)), dy.dtype(), dy.device());
          kernels::matmul(dy, w.transpose(-1, -2), CView{}, dx, false, Precision::full);
          grads.add(0, sum_to(dx, x.shape()));
        }
        if (grads.wants(1)) {
          Tensor dw =
              Tensor::empty(batch.append(w.dim(-2)).append(w.dim(-1)), dy.dtype(), dy.device());
          kernels::matmul(x.transpose(-1, -2), dy, CView{}, dw, false, Precision::full);
          grads.add(1, sum_to(dw, w.shape()));
        }
      });
}

}  // namespace nystrom
