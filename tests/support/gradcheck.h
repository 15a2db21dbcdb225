// Numerical differentiation in f64.
#pragma once

#include <functional>

#include "core/tensor.h"
#include "tests/support/random.h"

namespace nystrom::testing {

/// Returns d f / d x[i] for every element of x, by the 4-point stencil (f(−2h) − 8 f(−h) + 8 f(h) −
/// f(2h)) / 12h. Restores x afterwards.
inline Tensor numerical_gradient(const std::function<double()>& f, Tensor x, double h = 1e-4) {
  Tensor gradient = empty_like(x);
  auto* value = x.data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double at = value[i];
    const auto evaluate = [&](double offset) {
      value[i] = at + offset;
      return f();
    };
    gradient.data<double>()[i] =
        (evaluate(-2 * h) - 8 * evaluate(-h) + 8 * evaluate(h) - evaluate(2 * h)) / (12 * h);
    value[i] = at;
  }
  return gradient;
}

/// Σ a ∘ b.
inline double inner_product(const Tensor& a, const Tensor& b) {
  const auto x = a.to_doubles(), y = b.to_doubles();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace nystrom::testing
