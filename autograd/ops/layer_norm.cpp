#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

Var shift_or_zeros(const Var& shift, const Var& gamma) {
  return shift.defined() ? shift : Var(zeros_like(gamma.value()));
}

void check(const char* name, const Var& x, const Var& gamma, const Var& beta) {
  require(x.rank() >= 1 && x.dim(-1) >= 1,
          "{}: needs a last axis of at least one element, got shape {}", name, x.shape());
  const Shape row{x.dim(-1)};
  require(gamma.shape() == row && beta.shape() == row, "{}: gamma {} and beta {} do not fit x {}",
          name, gamma.shape(), beta.shape(), x.shape());
  require(x.dtype() == gamma.dtype() && x.dtype() == beta.dtype(),
          "{}: x is {}, but gamma {} and beta {}", name, x.dtype(), gamma.dtype(), beta.dtype());
}

void check_residual(const char* name, const Var& x, const Var& residual,
                    const DropoutOptions& dropout) {
  require(x.shape() == residual.shape() && x.dtype() == residual.dtype(),
          "{}: x is {} {}, but the residual {} {}", name, x.dtype(), x.shape(), residual.dtype(),
          residual.shape());
  require(dropout.p >= 0 && dropout.p < 1, "{}: p must be at least 0 and below 1, got {}", name,
          dropout.p);
}

/// The norm of residual + dropout(x), or of x if there is no residual.
Var normalised(const char* name, const Var& x, const Var& residual, const DropoutOptions& dropout,
               const Var& gamma, const Var& shift, double epsilon) {
  require(epsilon >= 0 && std::isfinite(epsilon),
          "{}: expected a finite epsilon of at least 0, got {}", name, epsilon);
  const Var beta = shift_or_zeros(shift, gamma);
  check(name, x, gamma, beta);
  const bool adds = residual.defined(), drops = adds && dropout.p > 0;
  if (adds) check_residual(name, x, residual, dropout);
  const Tensor value = x.value().contiguous(), g = gamma.value().contiguous(),
               b = beta.value().contiguous(),
               samples = drops ? sample_ids_of(name, x, dropout.sample_ids) : Tensor();
  const Shape rows{value.numel() / x.dim(-1)};
  const DType sums = accumulate_dtype(x.dtype());
  Tensor sum = adds ? empty_like(value) : Tensor(), y = empty_like(value);
  Tensor mean = Tensor::empty(rows, sums, value.device()),
         rstd = Tensor::empty(rows, sums, value.device());
  kernels::layer_norm(value, adds ? residual.value().contiguous() : Tensor(), samples, dropout.key,
                      dropout.p, g, b, epsilon, sum, y, mean, rstd);
  // Without a residual x is kept in any case, as the next one. A pass over it is cheaper than y's
  // memory.
  const auto again = std::make_shared<Recomputation>();
  if (!adds) {
    sum = value;
    again->compute = [value, g, b, epsilon, mean, rstd]() mutable {
      Tensor result = empty_like(value);
      kernels::layer_norm(value, Tensor(), Tensor(), {}, 0, g, b, epsilon, View{}, result, mean,
                          rstd);
      return result;
    };
  }
  const auto backward = [=, key = dropout.key, p = dropout.p](const Tensor& dy, Grads grads) {
    again->value = {};
    const Shape row{sum.dim(-1)};
    Tensor dsum = empty_like(sum), dx = drops ? empty_like(sum) : Tensor();
    Tensor row_sum = grads.row_sum_of(0, sum);
    grads.add_sums(adds ? 2 : 1, {row, row}, sums, sum.device(), [&](auto& parameters) {
      kernels::layer_norm_grad(sum, samples, key, p, g, mean, rstd, dy, dsum, dx, parameters[0],
                               parameters[1], row_sum);
    });
    grads.add(0, drops ? std::move(dx) : dsum, std::move(row_sum));
    if (adds) grads.add(1, std::move(dsum));
  };
  if (adds) return record(name, std::move(y), {x, residual, gamma, beta}, backward);
  const Var result = record(name, std::move(y), {x, gamma, beta}, backward);
  return result.requires_grad() ? result.recomputed_by(again) : result;
}

}  // namespace

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon) {
  return normalised("layer_norm", x, {}, {}, gamma, beta, epsilon);
}

Var residual_dropout(const Var& x, const Var& residual, const DropoutOptions& dropout) {
  check_residual("residual_dropout", x, residual, dropout);
  const bool drops = dropout.p > 0;
  const Tensor value = x.value().contiguous();
  const Tensor samples =
      drops ? sample_ids_of("residual_dropout", x, dropout.sample_ids) : Tensor{};
  Tensor y = empty_like(value);
  const auto dropped = [p = dropout.p, key = dropout.key, samples](const Tensor& from, Tensor to) {
    kernels::dropout(from, samples, key, p, to);
    return to;
  };
  if (drops) {
    kernels::accumulate(residual.value(), 1, dropped(value, y));
  } else {
    kernels::binary(Binary::add, residual.value(), value, y);
  }
  return record("residual_dropout", y, {x, residual},
                [drops, dropped](const Tensor& dy, Grads grads) {
                  grads.add(0, drops && grads.wants(0) ? dropped(dy, empty_like(dy)) : dy);
                  grads.add(1, dy);
                });
}

Var residual_layer_norm(const Var& x, const Var& residual, const DropoutOptions& dropout,
                        const Var& gamma, const Var& beta, double epsilon) {
  require(residual.defined(), "residual_layer_norm: has no residual");
  return normalised("residual_layer_norm", x, residual, dropout, gamma, beta, epsilon);
}

}  // namespace nystrom
