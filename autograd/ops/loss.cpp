#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {
namespace {

/// The number of labels that count. Throws for a label that is neither a class nor ignore_index.
std::int64_t count_labels(const Tensor& labels, std::int64_t classes) {
  const Tensor host = labels.to(cpu_device);
  const auto* label = host.data<std::int64_t>();
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    require(label[i] == ignore_index || (label[i] >= 0 && label[i] < classes),
            "cross_entropy: label {} at place {} is neither {} nor in 0 … {}", label[i], i,
            ignore_index, classes - 1);
    count += label[i] >= 0;
  }
  return count;
}

}  // namespace

Var cross_entropy(const Var& logits, const Tensor& classes, double normaliser, Tensor argmax,
                  double z_loss) {
  require(logits.rank() == 2 && classes.shape() == Shape{logits.dim(0)} &&
              classes.dtype() == DType::i64,
          "cross_entropy: expected logits [r, c] and i64 labels [r]; got {} and {} {}",
          logits.shape(), classes.dtype(), classes.shape());
  require(logits.dim(1) >= 1, "cross_entropy: needs at least one class, got logits {}",
          logits.shape());
  require(normaliser >= 0 && std::isfinite(normaliser) && z_loss >= 0 && std::isfinite(z_loss),
          "cross_entropy: expected a finite normaliser and z_loss of at least 0, got {} and {}",
          normaliser, z_loss);
  const Tensor in_order = classes.contiguous();
  const std::int64_t counted = count_labels(in_order, logits.dim(1));
  if (normaliser == 0) normaliser = static_cast<double>(std::max<std::int64_t>(counted, 1));
  require(!argmax.defined() || (argmax.shape() == classes.shape() && argmax.dtype() == DType::i64 &&
                                argmax.is_contiguous()),
          "cross_entropy: argmax must be contiguous, i64 {}, got {} {}", classes.shape(),
          argmax.dtype(), argmax.shape());
  const Tensor value = logits.value().contiguous();
  const Device device = value.device();
  const Tensor labels = in_order.to(device);
  const DType sums = accumulate_dtype(value.dtype());
  Tensor row_loss = Tensor::empty(labels.shape(), sums, device),
         log_sum_exp = Tensor::empty(labels.shape(), DType::f64, device);
  kernels::cross_entropy(value, labels, z_loss, row_loss, log_sum_exp, argmax);
  Tensor loss = Tensor::empty({1}, sums, device);
  kernels::sum_middle(row_loss.reshape({1, labels.dim(0), 1}), loss.reshape({1, 1}), false);
  kernels::affine(loss, 1 / normaliser, 0, loss);
  return record("cross_entropy", loss, {logits},
                [value, labels, z_loss, log_sum_exp, normaliser, sums, device](const Tensor& dy,
                                                                               Grads grads) {
                  Tensor scaled = empty_like(dy);
                  kernels::affine(dy, 1 / normaliser, 0, scaled);
                  Tensor row_grad = Tensor::empty(labels.shape(), sums, device);
                  kernels::copy(scaled.expand(labels.shape()), row_grad);
                  const DType type = grads.dtype(0);
                  // Nobody else reads the logits any more: their gradient takes their place.
                  Tensor dlogits = value.is_unique() && type == value.dtype()
                                       ? value
                                       : Tensor::empty(value.shape(), type, device);
                  kernels::cross_entropy_grad(value, labels, z_loss, log_sum_exp, row_grad,
                                              dlogits);
                  grads.add(0, std::move(dlogits));
                });
}

Var distillation_loss(const Var& logits, const Tensor& target, double temperature,
                      double normaliser) {
  require(logits.rank() == 2 && target.shape() == logits.shape() && logits.dim(1) >= 1 &&
              is_float(logits.dtype()) && is_float(target.dtype()),
          "distillation_loss: expected logits and target [r, c] of floating types, got {} {} and "
          "{} {}",
          logits.dtype(), logits.shape(), target.dtype(), target.shape());
  require(temperature > 0 && temperature <= 1e9 && normaliser > 0,
          "distillation_loss: expected a positive temperature, at most 1e9, and normaliser, got {} "
          "and {}",
          temperature, normaliser);
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const Device device = logits.value().device();
  const DType sums = accumulate_dtype(logits.dtype());
  const Tensor zeros = Tensor::zeros({rows}, DType::i64, device);
  Tensor unused = Tensor::empty({rows}, sums, device);
  // With a = logits / temperature and b = target / temperature, the divergence of a row is
  // ⟨softmax(b), b − a⟩ + log Σ exp(a) − log Σ exp(b).
  const auto log_sum_exp = [&](const Tensor& x) {
    Tensor y = Tensor::empty({rows}, DType::f64, device);
    kernels::cross_entropy(x, zeros, 0, unused, y, View{});
    return y.cast(sums);
  };
  // Without what the logits of a row share, which changes neither and would cost digits.
  const auto scaled = [&](const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), sums, device);
    kernels::copy(x, y);
    kernels::affine(y, 1 / temperature, 0, y);
    const Tensor shared = log_sum_exp(y).reshape({rows, 1});
    kernels::binary(Binary::subtract, y, shared.expand(y.shape()), y);
    return y;
  };
  Tensor a = scaled(logits.value()), b = scaled(target.to(device)), products = empty_like(a);
  kernels::binary(Binary::subtract, b, a, products);
  Tensor divergence = log_sum_exp(a);
  kernels::accumulate(log_sum_exp(b), -1, divergence);
  kernels::softmax(a, a);
  kernels::softmax(b, b);
  kernels::binary(Binary::multiply, b, products, products);
  kernels::sum_middle(products.reshape({rows, classes, 1}), divergence.reshape({rows, 1}), true);
  Tensor loss = Tensor::empty({1}, sums, device);
  kernels::sum_middle(divergence.reshape({1, rows, 1}), loss.reshape({1, 1}), false);
  kernels::affine(loss, temperature * temperature / normaliser, 0, loss);
  kernels::binary(Binary::subtract, a, b, a);
  return record("distillation_loss", loss, {logits},
                [difference = a, factor = temperature / normaliser](const Tensor& dy, Grads grads) {
                  Tensor dlogits = empty_like(difference);
                  kernels::binary(Binary::multiply, difference,
                                  dy.reshape({1, 1}).expand(difference.shape()), dlogits);
                  kernels::affine(dlogits, factor, 0, dlogits);
                  grads.add(0, std::move(dlogits));
                });
}

Var mean_squared_error(const Var& x, const Tensor& target) {
  require(target.shape() == x.shape(),
          "mean_squared_error: the target is {}, expected x's shape {}", target.shape(), x.shape());
  const DType sums = accumulate_dtype(x.dtype());
  return mean(square(cast(x, sums) - target.cast(sums).to(x.value().device())));
}

}  // namespace nystrom
