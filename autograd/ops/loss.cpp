#include <algorithm>

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

Var cross_entropy(const Var& logits, const Tensor& classes, double normaliser) {
  require(logits.rank() == 2 && classes.shape() == Shape{logits.dim(0)} &&
              classes.dtype() == DType::i64,
          "cross_entropy: expected logits [r, c] and i64 labels [r]; got {} and {} {}",
          logits.shape(), classes.dtype(), classes.shape());
  require(logits.dim(1) >= 1, "cross_entropy: needs at least one class, got logits {}",
          logits.shape());
  const std::int64_t counted = count_labels(classes, logits.dim(1));
  if (normaliser == 0) normaliser = static_cast<double>(std::max<std::int64_t>(counted, 1));
  const Tensor value = logits.value().contiguous();
  const Device device = value.device();
  const Tensor labels = classes.to(device);
  const DType sums = accumulate_dtype(value.dtype());
  Tensor row_loss = Tensor::empty(labels.shape(), sums, device),
         log_sum_exp = Tensor::empty(labels.shape(), sums, device);
  kernels::cross_entropy(value, labels, row_loss, log_sum_exp);
  Tensor loss = Tensor::empty({1}, sums, device);
  kernels::sum_middle(row_loss.reshape({1, labels.dim(0), 1}), loss.reshape({1, 1}), false);
  kernels::affine(loss, 1 / normaliser, 0, loss);
  return record(
      "cross_entropy", loss, {logits},
      [value, labels, log_sum_exp, normaliser, sums, device](const Tensor& dy, Grads grads) {
        Tensor scaled = empty_like(dy);
        kernels::affine(dy, 1 / normaliser, 0, scaled);
        Tensor row_grad = Tensor::empty(labels.shape(), sums, device);
        kernels::copy(scaled.expand(labels.shape()), row_grad);
        // Nobody else reads the logits any more: their gradient takes their place.
        Tensor dlogits = value.is_unique() ? value : empty_like(value);
        kernels::cross_entropy_grad(value, labels, log_sum_exp, row_grad, dlogits);
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
