// Shapes of tensors, with up to max_rank axes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/view.h"

namespace nystrom {

/// The sizes of a tensor's axes. Negative axis numbers count from the end.
class Shape {
 public:
  Shape() = default;
  /// Throws for more than max_rank axes and for negative sizes.
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  /// That of a kernel's argument.
  explicit Shape(const ViewBase& view)
      : Shape(std::span(view.shape, static_cast<std::size_t>(view.rank))) {}

  /// The number of axes.
  int rank() const { return rank_; }
  /// The number of elements. Throws where that exceeds 64 bits.
  std::int64_t numel() const;
  /// The size of an axis. Throws when `axis` is outside −rank … rank − 1.
  std::int64_t operator[](int axis) const { return sizes_[normalise(axis)]; }
  std::int64_t& operator[](int axis) { return sizes_[normalise(axis)]; }
  /// `axis` counted from the start. Throws when it is outside −rank … rank − 1.
  int normalise(int axis) const;

  /// This shape without `axis`.
  Shape without(int axis) const;
  /// This shape with `size` inserted in front of `axis`.
  Shape with(int axis, std::int64_t size) const;
  /// This shape with `size` as a new last axis.
  Shape append(std::int64_t size) const;

  /// The sizes as a range.
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  /// "[2, 3]".
  std::string to_string() const;

 private:
  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

/// The shape that a and b broadcast to by NumPy's rules. Throws an error that names both when they
/// do not broadcast.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace nystrom
