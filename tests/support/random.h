// Deterministic test data.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <numbers>
#include <vector>

#include "core/rng.h"
#include "core/tensor.h"

namespace nystrom::testing {

/// Standard normal f64 values. They depend only on the seed, on every machine.
inline Tensor random_normal(const Shape& shape, std::uint64_t seed, double scale = 1) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = philox(philox_key(seed, 0), {{static_cast<std::uint32_t>(i), 0, 0, 0}});
    values[i] = scale * std::sqrt(-2 * std::log(uniform_open(words.word[0]))) *
                std::cos(2 * std::numbers::pi * uniform_open(words.word[1]));
  }
  return Tensor::from(values, shape);
}

/// Those that bf16 and f16 represent exactly.
inline Tensor half_normal(const Shape& shape, std::uint64_t seed, double scale = 1) {
  const Tensor half = random_normal(shape, seed, scale).cast(DType::bf16).cast(DType::f16);
  return half.cast(DType::f64);
}

inline Tensor int_tensor(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

/// Of one axis.
inline Tensor ints(std::convertible_to<std::int64_t> auto... values) {
  return int_tensor({values...}, {sizeof...(values)});
}

inline Tensor mask_tensor(const std::vector<std::uint8_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

/// The largest |x − y|. Huge when one of them contains NaN, or when their sizes differ.
inline double max_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double worst = x.size() == y.size() ? 0 : 1e300;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    const double difference = std::abs(x[i] - y[i]);
    if (std::isnan(difference)) return 1e300;
    worst = std::max(worst, difference);
  }
  return worst;
}
inline double max_difference(const Tensor& a, const Tensor& b) {
  return max_difference(a.to_doubles(), b.to_doubles());
}
inline double largest(const Tensor& x) {
  double value = 0;
  for (const double v : x.to_doubles()) value = std::max(value, std::abs(v));
  return value;
}
/// A difference that is compared with a tolerance, EXPECT_LE(difference, tolerance).
struct Difference {
  double value;
  operator double() const { return value; }
};
/// The largest difference over its tolerance that was compared since it was set to 0: reports of
/// tests on GPUs have it (tests/cuda/results.cpp).
inline double& largest_over_tolerance() {
  static double instance = 0;
  return instance;
}
inline bool operator<=(const Difference& difference, double tolerance) {
  largest_over_tolerance() = std::max(largest_over_tolerance(), difference.value / tolerance);
  return difference.value <= tolerance;
}

/// The largest |a − b| relative to the largest |b|; absolute when b is 0 up to rounding.
inline Difference relative_difference(const Tensor& a, const Tensor& b) {
  const double scale = largest(b);
  return {scale > 1e-9 ? max_difference(a, b) / scale : max_difference(a, b)};
}

}  // namespace nystrom::testing
