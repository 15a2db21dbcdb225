#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {

Var sequence_conv(const Var& x, const Var& weight, const RowSpans& given) {
  const bool ragged = given.ragged();
  require(x.rank() == (ragged ? 3 : 4), "sequence_conv: expected {}, got {}",
          ragged ? "ragged [r, h, d]" : "[b, n, h, d]", x.shape());
  require(weight.rank() == 2 && weight.dim(0) == x.dim(-2) && weight.dim(1) % 2 == 1,
          "sequence_conv: the weight is {}, expected [{}, k] with k odd", weight.shape(),
          x.dim(-2));
  require(x.dtype() == weight.dtype(), "sequence_conv: x is {}, but the weight {}", x.dtype(),
          weight.dtype());
  require_spans("sequence_conv", given, x.dim(0));
  const Tensor value = with_unit_columns(x.value()), w = weight.value().contiguous();
  const RowSpans spans = given.on(value.device());
  const auto empty = [=] {
    return empty_rows(value.shape(), spans, value.dtype(), value.device());
  };
  Tensor y = empty();
  kernels::sequence_conv(by_heads(value), w, spans, CView{}, by_heads(y));
  return record("sequence_conv", y, {x, weight}, [=](const Tensor& dy, Grads grads) {
    Tensor dx = empty();
    grads.add_sums(1, {w.shape()}, accumulate_dtype(w.dtype()), w.device(), [&](auto& dw) {
      kernels::sequence_conv_grad(by_heads(value), w, spans, by_heads(dy), CView{}, by_heads(dx),
                                  dw[0]);
    });
    grads.add(0, std::move(dx));
  });
}

}  // namespace nystrom
