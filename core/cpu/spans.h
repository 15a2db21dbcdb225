// The rows of a span, in ragged and in dense tensors (Spans in core/kernels.h).
#pragma once

#include "core/kernels.h"

namespace nystrom {
namespace {

/// Rows of one span: its first row in a ragged tensor, or in its own part of a dense one.
struct Span {
  std::int64_t first, rows;
};

/// Span `part`, whose dense form has `dense_rows` rows.
NYSTROM_INLINE Span span_of(const Spans& spans, std::int64_t part, std::int64_t dense_rows) {
  if (!spans.bounds) return {0, dense_rows};
  const auto* bounds = spans.bounds.as<std::int64_t>() + 2 * part;
  return {bounds[0], bounds[1] - bounds[0]};
}

/// The number of spans of a tensor.
NYSTROM_INLINE std::int64_t parts_of(const ViewBase& view, const Spans& spans) {
  return spans.bounds ? spans.bounds.shape[0] : view.shape[0];
}

/// One head of one span of a tensor of heads.
struct Head {
  std::int64_t offset, row, rows;  // of its first number, from row to row, and how many rows
};

/// The head of a view, which may be absent: its place is then of no use.
NYSTROM_INLINE Head head_of(const ViewBase& view, const Spans& spans, std::int64_t part,
                            std::int64_t head) {
  const bool ragged = static_cast<bool>(spans.bounds);
  const Span span = span_of(spans, part, ragged ? 0 : view.shape[2]);
  const std::int64_t offset = (ragged ? span.first : part) * view.stride[0] + head * view.stride[1];
  return {offset, view.stride[ragged ? 0 : 2], span.rows};
}

/// Where the log-sum-exps of one head of one span of queries begin.
template <class A, class V>
NYSTROM_INLINE auto* log_sum_exp_of(const V& view, const Spans& spans, std::int64_t part,
                                    std::int64_t head) {
  return view.template as<A>() + (spans.bounds
                                      ? head * view.shape[1] + span_of(spans, part, 0).first
                                      : (part * view.shape[1] + head) * view.shape[2]);
}

}  // namespace
}  // namespace nystrom
