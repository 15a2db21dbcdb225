#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

void require_one_dtype(const char* name, const Var& a, const Var& b) {
  require(a.defined() && b.defined(), "{}: got an undefined tensor", name);
  require(a.dtype() == b.dtype(), "{}: both inputs must have one type; got {} and {}", name,
          a.dtype(), b.dtype());
}

Tensor binary_value(Binary op, const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::empty(broadcast(a.shape(), b.shape()), a.dtype(), a.device());
  kernels::binary(op, a, b, y);
  return y;
}

Tensor negated(const Tensor& x) {
  Tensor y = empty_like(x);
  kernels::affine(x, -1, 0, y);
  return y;
}

/// y = a ± b.
Var sum_or_difference(const char* name, Binary op, const Var& a, const Var& b) {
  require_one_dtype(name, a, b);
  return record(name, binary_value(op, a.value(), b.value()), {a, b},
                [op, shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy, Grads grads) {
                  if (grads.wants(0)) grads.add(0, sum_to(dy, shape_a));
                  if (grads.wants(1))
                    grads.add(1, sum_to(op == Binary::add ? dy : negated(dy), shape_b));
                });
}

Var unary(const char* name, Unary op, const Var& input) {
  const Tensor x = input.value().contiguous();
  Tensor y = empty_like(x);
  kernels::unary(op, x, y);
  return record(name, y, {input}, [op, x](const Tensor& dy, Grads grads) {
    Tensor dx = dy.is_unique() ? dy : empty_like(x);
    Tensor row_sum = grads.row_sum_of(0, x);
    kernels::unary_grad(op, x, dy, dx, View{}, row_sum);
    grads.add(0, std::move(dx), std::move(row_sum));
  });
}

}  // namespace

Var operator+(const Var& a, const Var& b) { return sum_or_difference("add", Binary::add, a, b); }
Var operator-(const Var& a, const Var& b) {
  return sum_or_difference("subtract", Binary::subtract, a, b);
}

Var operator*(const Var& a, const Var& b) {
  require_one_dtype("multiply", a, b);
  return record("multiply", binary_value(Binary::multiply, a.value(), b.value()), {a, b},
                [x = a.value(), y = b.value()](const Tensor& dy, Grads grads) {
                  if (grads.wants(0))
                    grads.add(0, sum_to(binary_value(Binary::multiply, dy, y), x.shape()));
                  if (grads.wants(1))
                    grads.add(1, sum_to(binary_value(Binary::multiply, dy, x), y.shape()));
                });
}

Var operator/(const Var& x, double divisor) {
  if (std::abs(divisor) > 1e-30 && std::abs(divisor) < 1e30) return affine(x, 1 / divisor);
  // In two factors, whose reciprocals f32 can hold.
  const double root = std::sqrt(std::abs(divisor));
  return affine(affine(x, 1 / root), std::copysign(1 / root, divisor));
}

Var operator/(const Var& a, const Var& b) {
  require_one_dtype("divide", a, b);
  Tensor quotient = binary_value(Binary::divide, a.value(), b.value());
  // d(a/b) = da/b − (a/b) db/b
  return record(
      "divide", quotient, {a, b},
      [shape_a = a.shape(), quotient, y = b.value()](const Tensor& dy, Grads grads) {
        const Tensor da = binary_value(Binary::divide, dy, y);
        if (grads.wants(0)) grads.add(0, sum_to(da, shape_a));
        if (grads.wants(1))
          grads.add(1, sum_to(negated(binary_value(Binary::multiply, da, quotient)), y.shape()));
      });
}

Var affine(const Var& x, double scale, double shift) {
  const Tensor value = x.value().contiguous();
  Tensor y = empty_like(value);
  kernels::affine(value, scale, shift, y);
  return record("affine", y, {x}, [scale](const Tensor& dy, Grads grads) {
    Tensor dx = empty_like(dy);
    kernels::affine(dy, scale, 0, dx);
    grads.add(0, std::move(dx));
  });
}

Var gelu_erf(const Var& x) { return unary("gelu_erf", Unary::gelu_erf, x); }
Var gelu_tanh(const Var& x) { return unary("gelu_tanh", Unary::gelu_tanh, x); }
Var silu(const Var& x) { return unary("silu", Unary::silu, x); }
Var relu(const Var& x) { return unary("relu", Unary::relu, x); }
Var tanh(const Var& x) { return unary("tanh", Unary::tanh, x); }
Var exp(const Var& x) { return unary("exp", Unary::exp, x); }
Var square(const Var& x) { return unary("square", Unary::square, x); }

Var cast(const Var& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return record("cast", x.value().cast(dtype), {x},
                [](const Tensor& dy, Grads grads) { grads.add(0, dy); });
}

Var round_to(const Var& x, DType dtype) {
  return record("round_to", x.value().cast(dtype).cast(x.dtype()), {x},
                [](const Tensor& dy, Grads grads) { grads.add(0, dy); });
}

Tensor sample_ids_of(const char* op, const Var& x, const Tensor& ids) {
  require(ids.defined(), "{}: dropout needs sample_ids, which decide its mask", op);
  const bool fits = x.rank() >= 1 && (ids.shape() == Shape{x.dim(0)} ||
                                      (x.rank() == 2 && ids.shape() == Shape{x.dim(0), 2}));
  require(fits && ids.dtype() == DType::i64,
          "{}: expected one i64 sample id a row of {}, got {} of shape {}", op, x.shape(),
          ids.dtype(), ids.shape());
  return ids.contiguous().to(x.value().device());
}

Var dropout(const Var& x, double p, DropoutKey key, const Tensor& samples) {
  require(p >= 0 && p < 1, "dropout: p must be at least 0 and below 1, got {}", p);
  const Tensor sample_ids = sample_ids_of("dropout", x, samples);
  if (p == 0) return x;
  const Tensor value = x.value().contiguous();
  Tensor y = empty_like(value);
  kernels::dropout(value, sample_ids, key, p, y);
  return record("dropout", y, {x}, [p, key, sample_ids](const Tensor& dy, Grads grads) {
    Tensor dx = empty_like(dy);
    kernels::dropout(dy, sample_ids, key, p, dx);
    grads.add(0, std::move(dx));
  });
}

}  // namespace nystrom
