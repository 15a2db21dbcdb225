// The gradients of a model's parameters beside numerical ones.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/gradcheck.h"
#include "tests/support/models.h"
#include "tests/support/sanitized.h"

namespace nystrom::testing {

/// Checks the gradient of `loss` for every parameter of an f64 model. Those that have no influence
/// have no gradient either.
inline void expect_numerical_gradients(const Model& model, const std::function<Var()>& loss,
                                       double tolerance = 1e-6) {
  {
    Tape tape;
    tape.backward(loss());
  }
  const double largest_of_all = largest(model.parameters().gradients());
  for (const Parameter& parameter : model.parameters().parameters()) {
    const Tensor analytic = model.parameters().gradient(parameter.name());
    if (is_key_bias(parameter.name()) && key_bias_is_inert(model.config())) {
      EXPECT_LE(largest(analytic), 1e-12 * largest_of_all) << parameter.name();
      continue;
    }
    // The sanitizer would take half an hour for ten thousand equal forward passes.
    if (sanitized) continue;
    const Tensor numerical =
        numerical_gradient([&] { return loss().value().item(); }, parameter.var().value());
    if (largest(numerical) < 1e-9 * largest_of_all) {
      EXPECT_LE(largest(analytic), 1e-9 * largest_of_all) << parameter.name();
    } else {
      EXPECT_LE(relative_difference(analytic, numerical), tolerance) << parameter.name();
    }
  }
}

}  // namespace nystrom::testing
