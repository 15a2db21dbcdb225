#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

/// scale · Σ over the middle axis of x, seen as [outer, reduced, inner].
Var scaled_sum(const char* name, const Var& x, const Shape& outer_reduced_inner,
               const Shape& result, double scale) {
  Tensor y = Tensor::empty(result, x.dtype(), x.value().device());
  kernels::sum_middle(x.value().contiguous().reshape(outer_reduced_inner),
                      y.reshape({outer_reduced_inner[0], outer_reduced_inner[2]}), false);
  if (scale != 1) kernels::affine(y, scale, 0, y);
  return record(
      name, y, {x}, [shape = x.shape(), outer_reduced_inner, scale](const Tensor& dy, Grads grads) {
        Tensor scaled = empty_like(dy);
        kernels::affine(dy, scale, 0, scaled);
        const Tensor repeated = scaled.reshape({outer_reduced_inner[0], 1, outer_reduced_inner[2]})
                                    .expand(outer_reduced_inner);
        grads.add(0, repeated.contiguous().reshape(shape));
      });
}

Var over_all(const char* name, const Var& x, double scale) {
  return scaled_sum(name, x, {1, x.value().numel(), 1}, {1}, scale);
}

Var over_axis(const char* name, const Var& x, int axis, double scale) {
  const int at = x.shape().normalise(axis);
  return scaled_sum(name, x, around_axis(x.shape(), at), x.shape().without(at), scale);
}

double one_over(const char* name, std::int64_t count) {
  require(count > 0, "{}: nothing to average", name);
  return 1.0 / static_cast<double>(count);
}

}  // namespace

Var sum(const Var& x) { return over_all("sum", x, 1); }
Var sum(const Var& x, int axis) { return over_axis("sum", x, axis, 1); }
Var mean(const Var& x) { return over_all("mean", x, one_over("mean", x.value().numel())); }
Var mean(const Var& x, int axis) {
  return over_axis("mean", x, axis, one_over("mean", x.dim(axis)));
}

Var row_norms(const Var& x) {
  constexpr double shortest = 1e-12;
  const Shape rows = x.shape().without(-1);
  // One number a row: the root is taken on the CPU, in f64.
  std::vector<double> norms, inverses;
  for (const double squares : sum(square(x.detach()), -1).value().to_doubles()) {
    const double norm = std::sqrt(squares);
    norms.push_back(std::max(norm, shortest));
    inverses.push_back(norm < shortest ? 0 : 1 / norm);
  }
  const auto on_device = [&](const std::vector<double>& values, const Shape& shape) {
    return Tensor::from(values, shape).cast(x.dtype()).to(x.value().device());
  };
  const Tensor inverse = on_device(inverses, rows.append(1));
  return record("row_norms", on_device(norms, rows), {x},
                [x = x.detach(), inverse](const Tensor& dy, Grads grads) {
                  const Var slope = Var(dy.reshape(inverse.shape())) * Var(inverse);
                  grads.add(0, (x * slope).value());
                });
}

}  // namespace nystrom
