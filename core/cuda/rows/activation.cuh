// Activations and their slopes. For 16-bit types they use the hardware's approximations, whose
// errors are far below the type's rounding.
#pragma once

#include "core/cuda/approximate.cuh"
#include "core/kernels.h"
#include "core/math.h"

namespace nystrom::cuda {

/// f(x) and f'(x).
template <class A>
struct Curve {
  A value, slope;
};

/// Formulas of activations of T, in T's accumulate type.
template <class T>
struct Formulas {
  using A = accumulate_t<T>;
  static constexpr bool approximate = sizeof(T) == 2;

  NYSTROM_DEVICE static A exp(A x) {
    if constexpr (approximate) {
      return approximate_exp2(x * 1.44269504f);
    } else {
      return math::exp(x);
    }
  }
  NYSTROM_DEVICE static A reciprocal(A x) {
    if constexpr (approximate) {
      return approximate_reciprocal(x);
    } else {
      return 1 / x;
    }
  }
  /// With u = √(2/π) (x + 0.044715 x³): gate = ½ (1 + tanh u), and gate (1 − gate).
  struct Gate {
    A gate, product;
  };
  NYSTROM_DEVICE static Gate gelu_tanh_gate(A x) {
    if constexpr (approximate) {
      constexpr A minus_two_u = A(-1.59576912160573071176 * 1.44269504088896340736);  // over ln 2
      const A power = x * (minus_two_u + minus_two_u * A(0.044715) * x * x);
      const A e = approximate_exp2(-math::abs(power)), r = reciprocal(1 + e);
      return {power < 0 ? r : e * r, e * r * r};
    } else {
      const A gate = math::gelu_tanh_gate(x);
      return {gate, gate * (1 - gate)};
    }
  }
  NYSTROM_DEVICE static Curve<A> gelu_tanh(A x) {
    const Gate at = gelu_tanh_gate(x);
    // The product is 0 where |x| > 16, and x² may be infinite.
    const A small = x > 16 ? A(16) : x < -16 ? A(-16) : x;
    const A twice_du = A(1.59576912160573071176) * (1 + A(3 * 0.044715) * small * small);
    return {x * at.gate, at.gate + small * at.product * twice_du};
  }
  /// Φ(x), by the fit of math::erfc.
  NYSTROM_DEVICE static A normal_cdf(A x) {
    if constexpr (!approximate) {
      return math::normal_cdf(x);
    } else {
      return approximate_cdf(x);
    }
  }
  NYSTROM_DEVICE static float approximate_cdf(float x) {
    const A a = math::abs(x) * A(0.70710678118654752440);
    const A t = reciprocal(1 + A(0.5) * a);
    A p = A(0.17087277);
    p = p * t - A(0.82215223);
    p = p * t + A(1.48851587);
    p = p * t - A(1.13520398);
    p = p * t + A(0.27886807);
    p = p * t - A(0.18628806);
    p = p * t + A(0.09678418);
    p = p * t + A(0.37409196);
    p = p * t + A(1.00002368);
    p = p * t - A(1.26551223);
    const A tail = A(0.5) * t * exp(p - a * a);
    return x < 0 ? tail : 1 - tail;
  }
  NYSTROM_DEVICE static Curve<A> gelu_erf(A x) {
    const A cdf = normal_cdf(x);
    return {x * cdf, cdf + x * exp(A(-0.5) * x * x) * A(0.39894228040143267794)};
  }
  NYSTROM_DEVICE static Curve<A> tanh(A x) {
    const A y = math::tanh(x);
    return {y, 1 - y * y};
  }
  NYSTROM_DEVICE static Curve<A> exponential(A x) {
    const A y = math::exp(x);
    return {y, y};
  }
};

/// Calls f(curve) with the function that maps x to its Curve under `op`.
template <class T, class F>
NYSTROM_DEVICE void with_curve(Unary op, const F& f) {
  using A = accumulate_t<T>;
  using Of = Formulas<T>;
  switch (op) {
    case Unary::gelu_erf: return f([](A x) { return Of::gelu_erf(x); });
    case Unary::gelu_tanh: return f([](A x) { return Of::gelu_tanh(x); });
    case Unary::relu: return f([](A x) { return Curve<A>{x > 0 ? x : A(0), x > 0 ? A(1) : A(0)}; });
    case Unary::tanh: return f([](A x) { return Of::tanh(x); });
    case Unary::exp: return f([](A x) { return Of::exponential(x); });
    case Unary::square: return f([](A x) { return Curve<A>{x * x, 2 * x}; });
  }
}

}  // namespace nystrom::cuda
