// The gradient of a two-layer model for every option compared with numerical differentiation.
#include <gtest/gtest.h>

#include "tests/support/model_cases.h"
#include "tests/support/model_gradients.h"

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
  const auto loss = [&] { return loss_of(*model, layout, input, run); };
  expect_numerical_gradients(*model, loss, test.tolerance);
  if (key_bias_is_inert(config)) return;
  const ParameterStore& store = model->parameters();
  for (const Parameter& parameter : store.parameters()) {
    if (!is_key_bias(parameter.name())) continue;
    EXPECT_GE(largest(store.gradient(parameter.name())), 1e-4 * largest(store.gradients()))
        << parameter.name() << " matters through the landmarks";
  }
}

INSTANTIATE_TEST_SUITE_P(Options, ModelGradient, ::testing::ValuesIn(model_cases()), case_name);

}  // namespace
}  // namespace nystrom::testing
