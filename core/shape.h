// Tensor shapes: up to max_rank axes, by value.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/view.h"

namespace nystrom {

/// Axis sizes of a tensor. Negative axis numbers count from the end.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  std::int64_t numel() const;
  /// Throws when `axis` is outside -rank … rank-1.
  std::int64_t operator[](int axis) const { return sizes_[normalise(axis)]; }
  std::int64_t& operator[](int axis) { return sizes_[normalise(axis)]; }
  int normalise(int axis) const;

  /// This shape without `axis`, or with `size` inserted in front of it.
  Shape without(int axis) const;
  Shape with(int axis, std::int64_t size) const;
  Shape append(std::int64_t size) const;

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  friend bool operator==(const Shape& a, const Shape& b) {
    return std::span(a.begin(), a.end()).size() == std::span(b.begin(), b.end()).size() &&
           std::equal(a.begin(), a.end(), b.begin());
  }

  /// "[2, 3]"
  std::string to_string() const;

 private:
  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

/// The shape that a and b broadcast to (NumPy's rules); throws naming both when they do not.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace nystrom
