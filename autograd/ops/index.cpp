#include <algorithm>

#include "autograd/ops.h"
#include "core/check.h"

namespace nystrom {
namespace {

/// Throws when an index on the CPU is outside lowest … rows − 1. Loaders have checked those on a
/// GPU.
void check_range(const char* name, const Tensor& index, std::int64_t lowest, std::int64_t rows) {
  require(index.dtype() == DType::i64, "{}: indices must be i64, got {}", name, index.dtype());
  if (!index.device().is_cpu()) return;
  const auto* begin = index.data<std::int64_t>();
  const auto bad = std::find_if(begin, begin + index.numel(),
                                [&](std::int64_t i) { return i < lowest || i >= rows; });
  require(bad == begin + index.numel(), "{}: index {} at place {} lies outside {} … {}", name,
          bad == begin + index.numel() ? 0 : *bad, bad - begin, lowest, rows - 1);
}

/// Adds x[r] to row index[r] of input 0's gradient.
void scatter_into_grad(Grads& grads, const Shape& shape, const Tensor& dy, const Tensor& index,
                       std::int64_t skip) {
  const std::int64_t width = shape.without(0).numel();
  kernels::scatter_add_rows(dy.reshape({index.numel(), width}), index, skip,
                            grads.so_far(0, shape, dy.device()).reshape({shape[0], width}));
}

}  // namespace

Var embedding(const Var& table, const Tensor& ids, std::int64_t padding_row) {
  require(table.rank() == 2, "embedding: expected a table [n, c], got {}", table.shape());
  const Tensor rows = table.value().contiguous(), given = ids.contiguous();
  check_range("embedding", given, 0, table.dim(0));
  require(padding_row >= -1 && padding_row < table.dim(0),
          "embedding: padding_row {}; expected -1 for none, or one of the table's {} rows",
          padding_row, table.dim(0));
  const Tensor index = given.to(rows.device());
  Tensor y = Tensor::empty(ids.shape().append(table.dim(1)), table.dtype(), rows.device());
  kernels::gather_rows(rows, index, y);
  return record("embedding", y, {table},
                [shape = table.shape(), index, padding_row](const Tensor& dy, Grads grads) {
                  scatter_into_grad(grads, shape, dy, index, padding_row);
                });
}

Var gather_rows(const Var& x, const Tensor& given) {
  require(x.rank() >= 1 && given.rank() == 1,
          "gather_rows: expected x [n, …] and indices [r]; got {} and {}", x.shape(),
          given.shape());
  const Tensor rows = given.contiguous();
  check_range("gather_rows", rows, -1, x.dim(0));
  const Tensor index = rows.to(x.value().device());
  const Tensor value = x.value().contiguous();
  const std::int64_t width = x.shape().without(0).numel();
  Tensor y = Tensor::empty(x.shape().without(0).with(0, index.dim(0)), x.dtype(), value.device());
  kernels::gather_rows(value.reshape({x.dim(0), width}), index, y.reshape({index.dim(0), width}));
  return record("gather_rows", y, {x}, [shape = x.shape(), index](const Tensor& dy, Grads grads) {
    scatter_into_grad(grads, shape, dy, index, -1);
  });
}

}  // namespace nystrom
