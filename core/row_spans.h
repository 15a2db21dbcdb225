// The spans of a ragged tensor, with the memory of their bounds.
#pragma once

#include <vector>

#include "core/kernels.h"
#include "core/tensor.h"

namespace nystrom {

/// A range of rows.
struct RowRange {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// Spans (core/kernels.h) of a ragged tensor. A default one stands for a dense tensor.
class RowSpans {
 public:
  RowSpans() = default;
  /// Spans that do not overlap, whose bounds kernels on `device` read.
  RowSpans(const std::vector<RowRange>& ranges, Device device) {
    std::vector<std::int64_t> bounds;
    for (const RowRange& range : ranges) {
      bounds.insert(bounds.end(), {range.begin, range.end});
      sizes_.push_back(range.size());
      rows_ += range.size();
      end_ = std::max(end_, range.end);
      longest_ = std::max(longest_, range.size());
    }
    bounds_ = Tensor::from(bounds, {std::ssize(ranges), 2}).to(device);
  }

  /// Whether this is of a ragged tensor.
  bool ragged() const { return bounds_.defined(); }
  /// The number of spans; `dense` for a dense tensor.
  std::int64_t count(std::int64_t dense) const { return ragged() ? bounds_.dim(0) : dense; }
  /// The rows of each span.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// The rows in all spans.
  std::int64_t rows() const { return rows_; }
  /// The most rows of a span.
  std::int64_t longest() const { return longest_; }
  /// The row after the last span.
  std::int64_t end() const { return end_; }
  /// The kernels' form.
  operator Spans() const { return {ragged() ? CView(bounds_) : CView{}, longest_}; }
  /// The same spans, read by kernels on another device.
  RowSpans on(Device device) const {
    RowSpans result = *this;
    result.bounds_ = bounds_.to(device);
    return result;
  }

 private:
  Tensor bounds_;  // [p, 2] i64
  std::vector<std::int64_t> sizes_;
  std::int64_t rows_ = 0, end_ = 0, longest_ = 0;
};

}  // namespace nystrom
