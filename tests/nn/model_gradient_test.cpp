// The gradient of a two-layer model for every option compared with numerical differentiation.
#include <gtest/gtest.h>

#include "tests/support/gradcheck.h"
#include "tests/support/model_cases.h"
#include "tests/support/sanitized.h"

namespace nystrom::testing {
namespace {

class ModelGradient : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ModelGradient, EqualsNumericalOne) {
  const ModelCase& test = GetParam();
  const ModelConfig config = test.config();
  const auto model = make_model(config, DType::f64, 1.7);
  const Layout layout{test.rows};
  const ModelInput input = input_of(config, layout);
  const RunContext run = test.run();
  {
    Tape tape;
    tape.backward(loss_of(*model, layout, input, run));
  }
  const double largest_of_all = largest(model->parameters().gradients());
  for (const Parameter& parameter : model->parameters().parameters()) {
    const Tensor analytic = model->parameters().gradient(parameter.name());
    if (is_key_bias(parameter.name())) {
      if (key_bias_is_inert(config)) {
        EXPECT_LE(largest(analytic), 1e-12 * largest_of_all)
            << parameter.name() << " has no influence";
        continue;
      }
      EXPECT_GE(largest(analytic), 1e-4 * largest_of_all)
          << parameter.name() << " matters through the landmarks";
    }
    /// The sanitizer would take half an hour for ten thousand equal forward passes.
    if (sanitized) continue;
    const Tensor numerical =
        numerical_gradient([&] { return loss_of(*model, layout, input, run).value().item(); },
                           parameter.var().value());
    EXPECT_LE(relative_difference(analytic, numerical), test.tolerance) << parameter.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Options, ModelGradient, ::testing::ValuesIn(model_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nystrom::testing
