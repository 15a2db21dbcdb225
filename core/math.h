// Scalar functions for element-wise kernels, on host and device. Float versions make no library
// calls, so loops over them vectorise. Double versions use the library and serve gradient checks.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/dtype.h"

namespace nystrom::math {

#define NYSTROM_MATH NYSTROM_HOST_DEVICE NYSTROM_INLINE

/// eˣ to about 1 ulp: x = k ln 2 + r with |r| ≤ ln 2 / 2, and a Taylor series of degree 7 in r. It
/// is 0 below −87.3 and at most e^88.
NYSTROM_MATH float exp(float x) {
  constexpr float round_to_integer =
      12582912.0f;  // 1.5 · 2²³: the sum's low mantissa bits are the rounded integer
  const float clamped = x > 88.0f ? 88.0f : x;
  const float shifted = clamped * 1.44269504f + round_to_integer;
  const float k = shifted - round_to_integer;
  const float r = (clamped - k * 0.693145752f) - k * 1.42860677e-6f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float power_of_two =
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);
  return x < -87.3f ? 0.0f : p * power_of_two;
}
NYSTROM_MATH double exp(double x) { return ::exp(x); }

/// |x|.
NYSTROM_MATH float abs(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}
/// A value with the given magnitude and the sign of `sign`.
NYSTROM_MATH float with_sign(float magnitude, float sign) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) |
                              (std::bit_cast<std::uint32_t>(sign) & 0x80000000u));
}

/// The hyperbolic tangent.
NYSTROM_MATH float tanh(float x) {
  const float a = abs(x);
  const float e = exp(-2 * a);
  const float s = x * x;
  // Near 0 the quotient loses digits, so it is a Taylor series to x⁹.
  const float near_zero =
      a * (1 + s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315 + s * (62.0f / 2835)))));
  return with_sign(a < 0.3f ? near_zero : (1 - e) / (1 + e), x);
}
NYSTROM_MATH double tanh(double x) { return ::tanh(x); }

/// The complementary error function, by the Chebyshev fit of Press et al., Numerical Recipes,
/// section 6.2. The relative error is below 5e-7 up to 1, and below 2e-5 in the far tail.
NYSTROM_MATH float erfc(float x) {
  const float a = abs(x);
  const float t = 1 / (1 + 0.5f * a);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  const float tail = t * exp(p - a * a);
  return x < 0 ? 2 - tail : tail;
}
NYSTROM_MATH double erfc(double x) { return ::erfc(x); }

/// The standard normal distribution function.
template <class T>
NYSTROM_MATH T normal_cdf(T x) {
  return T(0.5) * erfc(x * T(-0.70710678118654752440));
}

/// x Φ(x).
template <class T>
NYSTROM_MATH T gelu_erf(T x) {
  return x * normal_cdf(x);
}
/// The derivative of gelu_erf.
template <class T>
NYSTROM_MATH T gelu_erf_slope(T x) {
  return normal_cdf(x) + x * exp(T(-0.5) * x * x) * T(0.39894228040143267794);
}

/// 1 / (1 + e^(−x)); nothing overflows.
template <class T>
NYSTROM_MATH T sigmoid(T x) {
  const T e = exp(x > 0 ? -x : x);
  return (x > 0 ? T(1) : e) / (1 + e);
}

/// ½ (1 + tanh u) with u = √(2/π) (x + 0.044715 x³), as σ(2u): no digits cancel.
template <class T>
NYSTROM_MATH T gelu_tanh_gate(T x) {
  return sigmoid(T(1.59576912160573071176) * (x + T(0.044715) * x * x * x));
}
/// ½ x (1 + tanh u).
template <class T>
NYSTROM_MATH T gelu_tanh(T x) {
  return x * gelu_tanh_gate(x);
}
/// The derivative of gelu_tanh.
template <class T>
NYSTROM_MATH T gelu_tanh_slope(T x) {
  const T gate = gelu_tanh_gate(x);
  // The product is 0 where |x| > 16, and x² may be infinite.
  const T small = x > 16 ? T(16) : x < -16 ? T(-16) : x;
  const T twice_du = T(1.59576912160573071176) * (1 + T(3 * 0.044715) * small * small);
  return gate + small * gate * (1 - gate) * twice_du;
}

/// x σ(x).
template <class T>
NYSTROM_MATH T silu(T x) {
  return x * sigmoid(x);
}
/// The derivative of silu.
template <class T>
NYSTROM_MATH T silu_slope(T x) {
  const T s = sigmoid(x);
  return s + x * s * (1 - s);
}

#undef NYSTROM_MATH

}  // namespace nystrom::math
