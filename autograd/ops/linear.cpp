#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

/// dst (+)= a b.
void multiply_into(Grads::Destination destination, const Tensor& a, const Tensor& b,
                   Precision precision) {
  kernels::matmul(a, b, CView{}, destination.tensor, destination.accumulate, precision);
}

void check(const Shape& x, DType type, const Var& weight, const Var& bias) {
  require(x.rank() >= 1 && weight.rank() == 2 && x[-1] == weight.dim(1),
          "linear: x {} does not fit the weight {}; expected [out, in] for x […, in]", x,
          weight.shape());
  require(!bias.defined() || bias.shape() == Shape{weight.dim(0)},
          "linear: bias {} does not fit the weight {}", bias.shape(), weight.shape());
  require(type == weight.dtype() && is_float(type), "linear: x is {}, but the weight {}", type,
          weight.dtype());
  require(!bias.defined() || is_float(bias.dtype()), "linear: the bias is {}", bias.dtype());
}

void check(const Var& x, const Var& weight, const Var& bias) {
  check(x.shape(), x.dtype(), weight, bias);
}

/// A bias has the result's type, because libraries differ in other types that they accept.
Tensor shift_of(const Var& bias, DType type) {
  return bias.defined() ? bias.value().cast(type).contiguous() : Tensor();
}

/// x as rows [r, in].
Tensor rows_of(const Var& x) {
  return x.value().contiguous().reshape({x.shape().without(-1).numel(), x.dim(-1)});
}

/// rows_of(x) for the backward pass: kept, unless the op that made x computes it again.
class SavedRows {
 public:
  SavedRows(const Var& x, const Tensor& rows)
      : shape_(rows.shape()),
        rows_(x.recomputation() ? Tensor() : rows),
        again_(x.recomputation()) {}
  const Shape& shape() const { return shape_; }
  Tensor get() const { return again_ ? again_->get().reshape(shape_) : rows_; }

 private:
  Shape shape_;
  Tensor rows_;
  std::shared_ptr<Recomputation> again_;
};

/// rows Wᵀ + bias, in shape `shape`.
Tensor forward(const Tensor& rows, const Var& weight, const Var& bias, const Shape& shape,
               Precision precision, DType out_type) {
  Tensor y = Tensor::empty(shape, out_type, rows.device());
  kernels::matmul(rows, weight.value().transpose(0, 1), shift_of(bias, out_type),
                  y.reshape({rows.dim(0), weight.dim(0)}), false, precision);
  return y;
}

/// sums (+)= the sum of rows [r, out].
void sum_rows(const Tensor& rows, const Tensor& sums, bool accumulate) {
  kernels::sum_middle(rows.reshape({1, rows.dim(0), rows.dim(1)}), sums.reshape({1, rows.dim(1)}),
                      accumulate);
}

/// The gradient of x, input 0, in its shape; its rows have the shape `rows`.
void input_gradient(const Tensor& dy_rows, const Tensor& weight, const Shape& x, const Shape& rows,
                    Precision precision, Grads grads) {
  if (!grads.wants(0)) return;
  auto dx = grads.into(0, x, dy_rows.device());
  dx.tensor = dx.tensor.reshape(rows);
  multiply_into(dx, dy_rows, weight, precision);
}

/// The gradient of the bias, input 2.
void bias_gradient(const Tensor& dy_rows, Grads grads) {
  if (!grads.wants(2)) return;
  if (grads.row_sum().defined()) return grads.add(2, grads.row_sum());
  const auto db = grads.into(2, {dy_rows.dim(1)}, dy_rows.device());
  sum_rows(dy_rows, db.tensor, db.accumulate);
}

/// The gradients of weight and bias: inputs 1 and 2.
void parameter_gradients(const Tensor& dy_rows, const Tensor& rows, Precision precision,
                         Grads grads) {
  const Shape weight{dy_rows.dim(1), rows.dim(1)};
  if (grads.wants(1))
    multiply_into(grads.into(1, weight, rows.device()), dy_rows.transpose(0, 1), rows, precision);
  bias_gradient(dy_rows, grads);
}

Shape shape_of(const Var& x, const Var& weight) {
  return x.shape().without(-1).append(weight.dim(0));
}

/// Records y = rows Wᵀ + bias, where rows are those of x. The backward pass multiplies in the
/// weight's type, and so the gradient arrives in it.
Var record_linear(const Tensor& y, const Var& x, const Tensor& rows, const Var& weight,
                  const Var& bias, Precision precision) {
  return record("linear", y, {x, weight, bias},
                [saved = SavedRows(x, rows), w = weight.value(), x_shape = x.shape(), precision](
                    const Tensor& dy, Grads grads) {
                  const Tensor dy_rows = dy.reshape({saved.shape()[0], w.dim(0)});
                  input_gradient(dy_rows, w, x_shape, saved.shape(), precision, grads);
                  if (!grads.wants(1)) return bias_gradient(dy_rows, grads);
                  parameter_gradients(dy_rows, saved.get(), precision, grads);
                },
                {.dtype = weight.dtype(), .row_sum = bias.requires_grad()});
}

/// The common part of linear and linear_unrounded; `out_type` is the result's type.
Var linear_as(const Var& x, const Var& weight, const Var& bias, Precision precision,
              DType out_type) {
  check(x, weight, bias);
  const Tensor rows = rows_of(x);
  const Tensor y = forward(rows, weight, bias, shape_of(x, weight), precision, out_type);
  return record_linear(y, x, rows, weight, bias, precision);
}

/// Memory of the size of `saved`: its own, if a backward function alone has it.
Tensor own_or_empty(const Tensor& saved) { return saved.is_unique() ? saved : empty_like(saved); }

/// Calls use(first, end) with ranges of rows [r, width] that follow one another. On a CPU they are
/// so short that what is computed of them is still in a cache when it is read.
template <class F>
void for_blocks(std::int64_t rows, std::int64_t width, Device device, const F& use) {
  constexpr std::int64_t numbers = std::int64_t{1} << 20;
  const std::int64_t block =
      device.is_cpu() ? std::max<std::int64_t>(numbers / std::max<std::int64_t>(width, 1), 1)
                      : rows;
  for (std::int64_t first = 0; first < rows; first += block)
    use(first, std::min(rows, first + block));
}

/// The forward pass of feed_forward for rows of x: y [r, out], and inner [r, width] unless it is
/// undefined.
void feed_forward_into(Unary activation, const Tensor& rows, const LinearParameters& up,
                       const LinearParameters& down, Tensor inner, Tensor y) {
  const Tensor up_bias = shift_of(up.bias, rows.dtype()),
               down_bias = shift_of(down.bias, rows.dtype());
  const std::int64_t width = up.weight.dim(0);
  Tensor between, activated;
  for_blocks(rows.dim(0), width, rows.device(), [&](std::int64_t first, std::int64_t end) {
    const auto part = [&](const Tensor& all) { return all.slice(0, first, end); };
    if (!activated.defined() || activated.dim(0) != end - first) {
      activated = Tensor::empty({end - first, width}, rows.dtype(), rows.device());
      if (!inner.defined()) between = empty_like(activated);
    }
    if (inner.defined()) between = part(inner);
    kernels::matmul_unary(part(rows), up.weight.value().transpose(0, 1), up_bias, activation,
                          between, activated);
    Tensor result = part(y);
    kernels::matmul(activated, down.weight.value().transpose(0, 1), down_bias, result, false,
                    Precision::full);
  });
}

}  // namespace

void joint_parameter_gradients(const Tensor& dy_rows, const Tensor& rows, std::size_t first,
                               const std::vector<Tensor>& weights, Precision precision,
                               Grads& grads) {
  std::vector<Shape> shapes;
  for (const Tensor& weight : weights) shapes.push_back(weight.shape());
  for (const Tensor& weight : weights) shapes.push_back({weight.dim(0)});
  const DType sums = accumulate_dtype(dy_rows.dtype());
  grads.add_sums(first, shapes, sums, dy_rows.device(), [&](std::vector<Tensor>& targets) {
    const auto middle = targets.begin() + static_cast<std::ptrdiff_t>(weights.size());
    // One tensor of all weights, and one of all biases, where the targets are not adjacent.
    const auto whole = [&](const std::vector<Tensor>& parts, const Shape& shape) {
      const Tensor all = adjacent(parts);
      return all.defined() ? std::pair(all, true)
                           : std::pair(Tensor::empty(shape, sums, dy_rows.device()), false);
    };
    const std::vector<Tensor> dws(targets.begin(), middle), dbs(middle, targets.end());
    auto [dw, dw_direct] = whole(dws, {dy_rows.dim(1), rows.dim(1)});
    auto [db, db_direct] = whole(dbs, {dy_rows.dim(1)});
    multiply_into({dw, dw_direct}, dy_rows.transpose(0, 1), rows, precision);
    sum_rows(dy_rows, db, db_direct);
    const auto distribute = [](const Tensor& all, const std::vector<Tensor>& parts) {
      std::int64_t begin = 0;
      for (Tensor part : parts) {
        kernels::accumulate(all.slice(0, begin, begin + part.dim(0)), 1, part);
        begin += part.dim(0);
      }
    };
    if (!dw_direct) distribute(dw, dws);
    if (!db_direct) distribute(db, dbs);
  });
}

Var linear(const Var& x, const Var& weight, const Var& bias, Precision precision) {
  return linear_as(x, weight, bias, precision, x.dtype());
}

Var linear_unrounded(const Var& x, const Var& weight, const Var& bias) {
  return linear_as(x, weight, bias, Precision::full, accumulate_dtype(x.dtype()));
}

Var linear_of_data(const Tensor& x, const Var& weight, const Var& bias) {
  const DType type = weight.dtype();
  if (x.dtype() == type) return linear(Var(x), weight, bias);
  check(x.shape(), type, weight, bias);
  const Tensor rows = rows_of(Var(x));
  // Calls use(block of rows in the weight's type, those rows of `whole`).
  const auto by_blocks = [rows, type](const Tensor& whole, const auto& use) {
    for_blocks(rows.dim(0), rows.dim(1), cpu_device, [&](std::int64_t first, std::int64_t end) {
      use(rows.slice(0, first, end).cast(type), whole.slice(0, first, end));
    });
  };
  const Tensor y = Tensor::empty({rows.dim(0), weight.dim(0)}, type, x.device());
  by_blocks(y, [&](const Tensor& block, Tensor part) {
    kernels::matmul(block, weight.value().transpose(0, 1), shift_of(bias, type), part, false,
                    Precision::full);
  });
  return record("linear_of_data", y.reshape(shape_of(x, weight)), {Var(), weight, bias},
                [by_blocks, shape = y.shape()](const Tensor& dy, Grads grads) {
                  by_blocks(dy.reshape(shape), [&](const Tensor& block, const Tensor& part) {
                    parameter_gradients(part, block, Precision::full, grads);
                  });
                });
}

Var joint_linear(const Var& x, const std::vector<Var>& weights, const std::vector<Var>& biases) {
  require(!weights.empty() && weights.size() == biases.size(),
          "joint_linear: needs as many weights as biases, got {} and {}", weights.size(),
          biases.size());
  std::vector<Var> inputs{x};
  std::vector<Tensor> weight_values, bias_values;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check(x, weights[i], biases[i]);
    require(biases[i].dtype() == biases[0].dtype(), "joint_linear: biases are {} and {}",
            biases[0].dtype(), biases[i].dtype());
    weight_values.push_back(weights[i].value());
    bias_values.push_back(biases[i].value());
  }
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  const Tensor rows = rows_of(x), weight = joined(weight_values), bias = joined(bias_values);
  return record(
      "joint_linear", forward(rows, weight, bias, shape_of(x, weight), Precision::full, x.dtype()),
      inputs,
      [saved = SavedRows(x, rows), weight, weight_values, x_shape = x.shape()](const Tensor& dy,
                                                                               Grads grads) {
        const Tensor dy_rows = dy.reshape({saved.shape()[0], weight.dim(0)});
        input_gradient(dy_rows, weight, x_shape, saved.shape(), Precision::full, grads);
        joint_parameter_gradients(dy_rows, saved.get(), 1, weight_values, Precision::full, grads);
      });
}

Var feed_forward(Unary activation, const Var& x, const LinearParameters& up,
                 const LinearParameters& down) {
  check(x, up.weight, up.bias);
  const Tensor rows = rows_of(x);
  const Shape between{rows.dim(0), up.weight.dim(0)};
  Tensor inner = Tape::is_active() ? Tensor::empty(between, x.dtype(), rows.device()) : Tensor();
  check(between, x.dtype(), down.weight, down.bias);
  const Tensor y = Tensor::empty({rows.dim(0), down.weight.dim(0)}, x.dtype(), rows.device());
  feed_forward_into(activation, rows, up, down, inner, y);
  if (!inner.defined()) return y.reshape(shape_of(x, down.weight));
  const Var middle = record_linear(inner, x, rows, up.weight, up.bias, Precision::full);
  return record("feed_forward", y.reshape(shape_of(x, down.weight)),
                {middle, down.weight, down.bias},
                [activation, inner = std::move(inner), w = down.weight.value()](const Tensor& dy,
                                                                                Grads grads) {
                  const Tensor dy_rows = dy.reshape({inner.dim(0), w.dim(0)});
                  Tensor dx = empty_like(inner), again = own_or_empty(inner);
                  kernels::matmul(dy_rows, w, CView{}, dx, false, Precision::full);
                  Tensor row_sum = grads.row_sum_of(0, inner);
                  kernels::unary_grad(activation, inner, dx, dx, again, row_sum);
                  parameter_gradients(dy_rows, again, Precision::full, grads);
                  grads.add(0, std::move(dx), std::move(row_sum));
                },
                {.row_sum = down.bias.requires_grad()});
}

Var gated_linear(Unary activation, const Var& x, const Var& weight, const Var& bias) {
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == 2 * weight.dim(1),
          "gated_linear: x {} does not fit the weight {}; expected [out, in] for x […, 2·in]",
          x.shape(), weight.shape());
  const Tensor rows = rows_of(x);
  Tensor gated = Tensor::empty({rows.dim(0), weight.dim(1)}, x.dtype(), rows.device());
  kernels::gated_unary(activation, rows, gated);
  check(gated, weight, bias);
  return record(
      "gated_linear", forward(gated, weight, bias, shape_of(x, weight), Precision::full, x.dtype()),
      {x, weight, bias},
      [activation, rows, w = weight.value(), x_shape = x.shape()](const Tensor& dy, Grads grads) {
        const Tensor dy_rows = dy.reshape({rows.dim(0), w.dim(0)});
        Tensor product = Tensor::empty({rows.dim(0), w.dim(1)}, rows.dtype(), rows.device());
        kernels::matmul(dy_rows, w, CView{}, product, false, Precision::full);
        Tensor dx = own_or_empty(rows);
        kernels::gated_unary_grad(activation, rows, product, dx, product);
        parameter_gradients(dy_rows, product, Precision::full, grads);
        grads.add(0, dx.reshape(x_shape));
      },
      {.row_sum = bias.requires_grad()});
}

Var matmul(const Var& a, const Var& b) {
  require(a.rank() >= 2 && b.rank() >= 2 && a.dim(-1) == b.dim(-2),
          "matmul: {} and {} do not match; expected […, m, k] and […, k, n]", a.shape(), b.shape());
  require(a.dtype() == b.dtype() && is_float(a.dtype()),
          "matmul: both inputs must have one floating type; got {} and {}", a.dtype(), b.dtype());
  return record("matmul", product(a.value(), b.value()), {a, b},
                [x = a.value(), w = b.value()](const Tensor& dy, Grads grads) {
                  if (grads.wants(0))
                    grads.add(0, sum_to(product(dy, w.transpose(-1, -2)), x.shape()));
                  if (grads.wants(1))
                    grads.add(1, sum_to(product(x.transpose(-1, -2), dy), w.shape()));
                });
}

}  // namespace nystrom
