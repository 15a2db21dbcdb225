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

void check(const Var& x, const Var& weight, const Var& bias) {
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1),
          "linear: x {} does not fit the weight {}; expected [out, in] for x […, in]", x.shape(),
          weight.shape());
  require(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
          "linear: bias {} does not fit the weight {}", bias.shape(), weight.shape());
  require(x.dtype() == weight.dtype(), "linear: x is {}, but the weight {}", x.dtype(),
          weight.dtype());
}

/// x as rows [r, in].
Tensor rows_of(const Var& x) {
  const std::int64_t in = x.dim(-1);
  return x.value().contiguous().reshape({in == 0 ? 0 : x.value().numel() / in, in});
}

/// rows Wᵀ + bias, in shape `shape`.
Tensor forward(const Tensor& rows, const Var& weight, const Var& bias, const Shape& shape,
               Precision precision, DType out_type) {
  Tensor y = Tensor::empty(shape, out_type, rows.device());
  // A bias has the result's type, because libraries differ in other types that they accept.
  const Tensor shift = bias.defined() ? bias.value().cast(out_type) : Tensor();
  kernels::matmul(rows, weight.value().transpose(0, 1), shift,
                  y.reshape({rows.dim(0), weight.dim(0)}), false, precision);
  return y;
}

/// The gradients of weight and bias: inputs 1 and 2.
void parameter_gradients(const Tensor& dy_rows, const Tensor& rows, Precision precision,
                         Grads grads) {
  const std::int64_t out = dy_rows.dim(1);
  if (grads.wants(1))
    multiply_into(grads.into(1, {out, rows.dim(1)}, rows.device()), dy_rows.transpose(0, 1), rows,
                  precision);
  if (grads.wants(2)) {
    const auto db = grads.into(2, {out}, rows.device());
    kernels::sum_middle(dy_rows.reshape({1, dy_rows.dim(0), out}), db.tensor.reshape({1, out}),
                        db.accumulate);
  }
}

/// The common part of linear and linear_unrounded; `out_type` is the result's type.
Var product(const Var& x, const Var& weight, const Var& bias, Precision precision, DType out_type) {
  check(x, weight, bias);
  const Tensor rows = rows_of(x);
  return record(
      "linear",
      forward(rows, weight, bias, x.shape().without(-1).append(weight.dim(0)), precision, out_type),
      {x, weight, bias},
      [rows, w = weight.value(), x_shape = x.shape(), precision](const Tensor& dy, Grads grads) {
        const Tensor dy_rows = dy.cast(w.dtype()).reshape({rows.dim(0), w.dim(0)});
        if (grads.wants(0)) {
          auto dx = grads.into(0, x_shape, dy.device());
          dx.tensor = dx.tensor.reshape(rows.shape());
          multiply_into(dx, dy_rows, w, precision);
        }
        parameter_gradients(dy_rows, rows, precision, grads);
      });
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, Precision precision) {
  return product(x, weight, bias, precision, x.dtype());
}

Var linear_unrounded(const Var& x, const Var& weight, const Var& bias) {
  return product(x, weight, bias, Precision::full, accumulate_dtype(x.dtype()));
}

Var activated_linear(Unary activation, const Var& x, const Var& weight, const Var& bias) {
  check(x, weight, bias);
  const Tensor rows = rows_of(x);
  Tensor activated = empty_like(rows);
  kernels::unary(activation, rows, activated);
  return record(
      "activated_linear",
      forward(activated, weight, bias, x.shape().without(-1).append(weight.dim(0)), Precision::full,
              x.dtype()),
      {x, weight, bias},
      [activation, rows, w = weight.value(), x_shape = x.shape()](const Tensor& dy, Grads grads) {
        const Tensor dy_rows = dy.reshape({rows.dim(0), w.dim(0)});
        Tensor dx = empty_like(rows), again = empty_like(rows);
        kernels::matmul(dy_rows, w, CView{}, dx, false, Precision::full);
        kernels::unary_grad(activation, rows, dx, dx, again);
        parameter_gradients(dy_rows, again, Precision::full, grads);
        grads.add(0, dx.reshape(x_shape));
      });
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
