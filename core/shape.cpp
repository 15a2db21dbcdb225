#include "core/shape.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {

void throw_not_a_float(DType dtype) {
  throw Error(is_float(dtype) ? fmt::format("cannot compute in {} here", dtype)
                              : fmt::format("expected a floating type, got {}", dtype));
}

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  require(sizes.size() <= max_rank, "a shape has at most {} axes, got {}", max_rank, sizes.size());
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  for (const auto size : sizes) require(size >= 0, "a shape needs sizes >= 0, got {}", to_string());
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (const auto size : *this)
    require(!__builtin_mul_overflow(n, size, &n), "the shape {} has too many elements",
            to_string());
  return n;
}

int Shape::normalise(int axis) const {
  require(axis >= -rank_ && axis < rank_, "axis {} does not exist in shape {}", axis, to_string());
  return axis < 0 ? axis + rank_ : axis;
}

Shape Shape::without(int axis) const {
  Shape result = *this;
  const int from = normalise(axis);
  std::copy(sizes_.begin() + from + 1, sizes_.begin() + rank_, result.sizes_.begin() + from);
  result.sizes_[--result.rank_] = 0;
  return result;
}

Shape Shape::with(int axis, std::int64_t size) const {
  require(rank_ < max_rank, "a shape has at most {} axes", max_rank);
  Shape result = *this;
  const int at = axis < 0 ? axis + rank_ + 1 : axis;
  std::copy_backward(sizes_.begin() + at, sizes_.begin() + rank_,
                     result.sizes_.begin() + rank_ + 1);
  result.sizes_[at] = size;
  ++result.rank_;
  return result;
}

Shape Shape::append(std::int64_t size) const { return with(rank_, size); }

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(begin(), end(), ", "));
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, max_rank> sizes{};
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a[-i] : 1;
    const std::int64_t y = i <= b.rank() ? b[-i] : 1;
    require(x == y || x == 1 || y == 1, "shapes {} and {} do not broadcast", a, b);
    sizes[rank - i] = x == 1 ? y : x;
  }
  return Shape(std::span<const std::int64_t>(sizes.data(), rank));
}

}  // namespace nystrom
