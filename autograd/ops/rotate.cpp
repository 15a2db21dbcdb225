#include <cmath>
#include <numeric>
#include <vector>

#include "autograd/ops.h"
#include "autograd/ops/shared.h"

namespace nystrom {
namespace {

/// x with its first heads turned.
Tensor turned(const Tensor& x, const RowSpans& spans, const Tensor& table, std::int64_t heads,
              bool backwards) {
  const Tensor unit = with_unit_columns(x);
  Tensor y = empty_heads_like(unit, spans);
  kernels::rotate(unit.slice(1, 0, heads), spans, table, backwards, y.slice(1, 0, heads));
  const std::int64_t all = x.dim(1);
  if (heads < all) kernels::copy(unit.slice(1, heads, all), y.slice(1, heads, all));
  return y;
}

}  // namespace

Var rotate(const Var& x, const RowSpans& spans, const Tensor& table,
           std::optional<std::int64_t> heads) {
  require_heads("rotate", x.shape(), spans, "heads");
  const std::int64_t first = heads.value_or(x.dim(1));
  require(first >= 0 && first <= x.dim(1), "rotate: expected 0 to {} heads, got {}", x.dim(1),
          first);
  const std::int64_t width = x.dim(-1), places = spans.ragged() ? spans.longest() : x.dim(2);
  require(width % 2 == 0 && table.rank() == 3 && table.dim(0) >= places &&
              table.dim(1) == width / 2 && table.dim(2) == 2,
          "rotate: the table is {}, expected [at least {}, {} / 2, 2]", table.shape(), places,
          width);
  require(table.dtype() == accumulate_dtype(x.dtype()), "rotate: x is {}, but the table {}",
          x.dtype(), table.dtype());
  const Device device = x.value().device();
  const RowSpans own = spans.on(device);
  const Tensor angles = table.contiguous().to(device);
  return record("rotate", turned(x.value(), own, angles, first, false), {x},
                [own, angles, first](const Tensor& dy, Grads grads) {
                  grads.add(0, turned(dy, own, angles, first, true));
                },
                {.strided = true});
}

Tensor rotary_table(std::int64_t count, std::int64_t width, double theta) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  require(count >= 0 && count <= most, "rotary_table: expected 0 to {} places, got {}", most,
          count);
  std::vector<double> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return rotary_table(places, width, theta);
}

std::vector<float> rotary_frequencies(std::int64_t width, double theta) {
  constexpr std::int64_t most = std::int64_t{1} << 20;
  require(
      width >= 2 && width <= most && width % 2 == 0 && theta >= 1e-30 && theta <= 1e30,
      "rotary_table: expected an even width from 2 to {} and a theta from 1e-30 to 1e30, got {} "
      "and {}",
      most, width, theta);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
    frequencies.push_back(1.0F / std::pow(static_cast<float>(theta), exponent));
  }
  return frequencies;
}

Tensor rotary_table(const std::vector<double>& places, std::int64_t width, double theta) {
  const std::vector<float> frequencies = rotary_frequencies(width, theta);
  std::vector<double> numbers;
  numbers.reserve(places.size() * static_cast<std::size_t>(width));
  for (const double place : places) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(place) * frequency;
      numbers.push_back(std::cos(static_cast<double>(angle)));
      numbers.push_back(std::sin(static_cast<double>(angle)));
    }
  }
  return Tensor::from(numbers, {std::ssize(places), std::ssize(frequencies), 2});
}

}  // namespace nystrom
