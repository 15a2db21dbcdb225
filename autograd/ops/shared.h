// Helpers of several ops: the rows and heads of tensors, joined parameters, sums and products.
#pragma once

#include <vector>

#include "autograd/tape.h"
#include "core/check.h"
#include "core/kernels.h"
#include "core/row_spans.h"

namespace nystrom {

/// An uninitialised tensor, dense or ragged, whose rows outside the spans are 0.
inline Tensor empty_rows(const Shape& shape, const RowSpans& spans, DType dtype, Device device) {
  return !spans.ragged() || spans.rows() == shape[0] ? Tensor::empty(shape, dtype, device)
                                                     : Tensor::zeros(shape, dtype, device);
}

/// An uninitialised [b, h, n, width] with the memory layout [b, n, h, width], or a ragged
/// [r, h, width].
inline Tensor empty_heads(const Tensor& like, std::int64_t width, const RowSpans& spans,
                          DType dtype) {
  if (spans.ragged())
    return empty_rows({like.dim(0), like.dim(1), width}, spans, dtype, like.device());
  return Tensor::empty({like.dim(0), like.dim(2), like.dim(1), width}, dtype, like.device())
      .transpose(1, 2);
}

/// The same with x's width and dtype.
inline Tensor empty_heads_like(const Tensor& x, const RowSpans& spans) {
  return empty_heads(x, x.dim(-1), spans, x.dtype());
}

/// x, or a copy of it, whose columns lie beside each other.
inline Tensor with_unit_columns(const Tensor& x) {
  return x.dim(-1) <= 1 || x.stride(x.rank() - 1) == 1 ? x : x.contiguous();
}

/// The kernels' form of rows: ragged [r, h, d] as it is, dense [b, n, h, d] as [b, h, n, d].
inline Tensor by_heads(const Tensor& x) { return x.rank() == 4 ? x.transpose(1, 2) : x; }

/// The shape of the log-sum-exps of queries of this shape.
inline Shape log_sum_exp_shape(const Shape& queries, const RowSpans& spans) {
  return spans.ragged() ? Shape{queries[1], queries[0]} : queries.without(-1);
}

/// Throws an Error unless a pseudo-inverse can have that many iterations.
inline void require_iterations(const char* op, std::int64_t iterations) {
  constexpr std::int64_t most = 1 << 20;
  require(iterations >= 0 && iterations <= most, "{}: needs 0 to {} iterations, got {}", op, most,
          iterations);
}

/// Throws an Error if a span reaches beyond the rows.
inline void require_spans(const char* op, const RowSpans& spans, std::int64_t rows) {
  require(spans.end() <= rows, "{}: the spans end at row {}, but there are {} rows", op,
          spans.end(), rows);
}

/// Throws an Error unless x has the axes of a ragged tensor, with rows for the spans, or of a dense
/// one. `what` names x.
inline void require_heads(const char* op, const Shape& x, const RowSpans& spans, const char* what) {
  require(x.rank() == (spans.ragged() ? 3 : 4), "{}: {} are {}, expected {}", op, what, x,
          spans.ragged() ? "ragged [r, h, d]" : "[b, h, n, d]");
  require_spans(op, spans, x[0]);
}

/// `ids` in the kernels' form (kernels::dropout), on x's device. Throws an Error unless they are
/// i64 [b], or [b, 2] for x [b, c].
Tensor sample_ids_of(const char* op, const Var& x, const Tensor& ids);

/// The product of the axes before `axis`, that axis, and the product of those behind it.
Shape around_axis(const Shape& shape, int axis);
/// `grad` summed over the axes along which a tensor of `shape` was broadcast to grad's shape.
Tensor sum_to(Tensor grad, const Shape& shape);

/// a b in full precision: a […, m, n], b […, n, p], whose other axes are broadcast.
Tensor product(const Tensor& a, const Tensor& b);

/// The tensors as one along the first axis: a view if they are adjacent, otherwise undefined.
Tensor adjacent(const std::vector<Tensor>& tensors);
/// The same, copied if they are not adjacent.
Tensor joined(const std::vector<Tensor>& tensors);

/// Adds the gradients of several linear layers of `rows` [r, in] at once, from dy_rows [r, Σ
/// out_i]: those of the weights [out_i, in] are inputs `first` …, those of the biases [out_i]
/// follow.
void joint_parameter_gradients(const Tensor& dy_rows, const Tensor& rows, std::size_t first,
                               const std::vector<Tensor>& weights, Precision precision,
                               Grads& grads);

}  // namespace nystrom
