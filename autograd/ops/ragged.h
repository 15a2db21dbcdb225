// The rows of ragged tensors in ops.
#pragma once

#include "core/check.h"
#include "core/row_spans.h"

namespace nystrom {

/// An uninitialised ragged tensor, whose rows outside the spans are 0.
inline Tensor empty_rows(const Shape& shape, const RowSpans& spans, DType dtype, Device device) {
  return spans.rows() == shape[0] ? Tensor::empty(shape, dtype, device)
                                  : Tensor::zeros(shape, dtype, device);
}

/// The shape of the log-sum-exps of queries of this shape.
inline Shape log_sum_exp_shape(const Shape& queries, const RowSpans& spans) {
  return spans.ragged() ? Shape{queries[1], queries[0]} : queries.without(-1);
}

/// Throws an Error if a span reaches beyond the rows.
inline void require_spans(const char* op, const RowSpans& spans, std::int64_t rows) {
  require(spans.end() <= rows, "{}: the spans end at row {}, but there are {} rows", op,
          spans.end(), rows);
}

}  // namespace nystrom
