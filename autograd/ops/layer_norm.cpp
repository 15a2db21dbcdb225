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

}  // namespace

Var layer_norm(const Var& x, const Var& gamma, const Var& shift, double epsilon) {
  const Var beta = shift_or_zeros(shift, gamma);
  check("layer_norm", x, gamma, beta);
  const Shape row{x.dim(-1)};
  const Tensor value = x.value().contiguous(), g = gamma.value().contiguous(),
               b = beta.value().contiguous();
  const Shape rows{value.numel() / x.dim(-1)};
  const DType sums = accumulate_dtype(x.dtype());
  Tensor y = empty_like(value);
  Tensor mean = Tensor::empty(rows, sums, value.device()),
         rstd = Tensor::empty(rows, sums, value.device());
  kernels::layer_norm(value, g, b, epsilon, y, mean, rstd);
  // x is kept in any case, as the residual. One pass over it is cheaper than y's memory.
  const auto again = std::make_shared<Recomputation>();
  again->compute = [value, g, b, epsilon, mean, rstd]() mutable {
    Tensor result = empty_like(value);
    kernels::layer_norm(value, g, b, epsilon, result, mean, rstd);
    return result;
  };
  const Var result = record(
      "layer_norm", std::move(y), {x, gamma, beta},
      [value, g, mean, rstd, row, sums, again](const Tensor& dy, Grads grads) {
        again->value = {};
        Tensor dx = empty_like(value);
        grads.add_sums(1, {row, row}, sums, value.device(), [&](auto& parameters) {
          kernels::layer_norm_grad(value, g, mean, rstd, dy, dx, parameters[0], parameters[1]);
        });
        grads.add(0, std::move(dx));
      });
  return result.requires_grad() ? result.recomputed_by(again) : result;
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
                        const Var& gamma, const Var& shift, double epsilon) {
  const Var beta = shift_or_zeros(shift, gamma);
  check("residual_layer_norm", x, gamma, beta);
  check_residual("residual_layer_norm", x, residual, dropout);
  const bool drops = dropout.p > 0;
  const Tensor value = x.value().contiguous(), g = gamma.value().contiguous();
  const Tensor samples =
      drops ? sample_ids_of("residual_layer_norm", x, dropout.sample_ids) : Tensor{};
  const Shape rows{value.numel() / x.dim(-1)};
  const DType sums = accumulate_dtype(x.dtype());
  Tensor sum = empty_like(value), y = empty_like(value);
  Tensor mean = Tensor::empty(rows, sums, value.device()),
         rstd = Tensor::empty(rows, sums, value.device());
  kernels::residual_layer_norm(value, residual.value().contiguous(), samples, dropout.key,
                               dropout.p, g, beta.value().contiguous(), epsilon, sum, y, mean,
                               rstd);
  const auto backward = [sum, g, mean, rstd, samples, drops, dropout, sums](const Tensor& dy,
                                                                            Grads grads) {
    const Shape row{sum.dim(-1)};
    Tensor dsum = empty_like(sum), dx = drops ? empty_like(sum) : Tensor{};
    Tensor row_sum = grads.row_sum_of(0, sum.dim(-1), sum.dtype(), sum.device());
    grads.add_sums(2, {row, row}, sums, sum.device(), [&](auto& parameters) {
      kernels::residual_layer_norm_grad(sum, samples, dropout.key, dropout.p, g, mean, rstd, dy,
                                        dsum, dx, parameters[0], parameters[1], row_sum);
    });
    grads.add(0, drops ? std::move(dx) : dsum, std::move(row_sum));
    grads.add(1, std::move(dsum));
  };
  return record("residual_layer_norm", y, {x, residual, gamma, beta}, backward);
}

}  // namespace nystrom
