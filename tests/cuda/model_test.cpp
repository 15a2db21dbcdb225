// Whole models on the GPU, forward and backward, compared with the reference results of the CPU
// tests, and with every option with those of the CPU.
#include <fmt/format.h>

#include "tests/cuda/device.h"
#include "tests/support/drawn_models.h"
#include "tests/support/golden.h"
#include "tests/support/gradcheck.h"
#include "tests/support/model_cases.h"
#include "tests/support/rounds.h"

namespace nystrom::testing {
namespace {

class CudaGoldenTest : public GpuTest<::testing::TestWithParam<Golden>> {};

TEST_P(CudaGoldenTest, F64) { expect_equal(GetParam(), {DType::f64, 1e-9, 1e-9}, gpu); }
TEST_P(CudaGoldenTest, F32) { expect_equal(GetParam(), {DType::f32, 1e-4, 1e-3}, gpu); }

INSTANTIATE_TEST_SUITE_P(Fixtures, CudaGoldenTest, ::testing::ValuesIn(all_golden()),
                         [](const auto& test) { return test.param.kind + "_" + test.param.name; });

/// The loss and every parameter's gradient on the GPU are those of the CPU.
void expect_equal_devices(const ModelConfig& config, const Layout& layout, const ModelInput& input,
                          const RunContext& run, double tolerance) {
  const auto results = [&](Device device) {
    const auto model = make_model(config, DType::f64, 1.7, device);
    Tape tape;
    const Var loss = loss_of(*model, layout, input, run);
    tape.backward(loss);
    std::map<std::string, Tensor> found{{"loss", loss.value().to(cpu_device)}};
    for (const Parameter& parameter : model->parameters().parameters())
      found[parameter.name()] = model->parameters().gradient(parameter.name()).to(cpu_device);
    return found;
  };
  const auto expected = results(cpu_device);
  double scale = 0;  // gradients that cancel leave noise of the others' magnitude
  for (const auto& [name, value] : expected) scale = std::max(scale, largest(value));
  for (const auto& [name, value] : results(gpu))
    EXPECT_LE(max_difference(value, expected.at(name)), tolerance * scale) << name;
}

class CudaModelOption : public GpuTest<::testing::TestWithParam<ModelCase>> {};

TEST_P(CudaModelOption, GivesWhatTheCpuGives) {
  const ModelConfig config = GetParam().config();
  const Layout layout{GetParam().rows};
  expect_equal_devices(config, layout, input_of(config, layout), GetParam().run(),
                       1e-3 * GetParam().tolerance);
}

INSTANTIATE_TEST_SUITE_P(Options, CudaModelOption, ::testing::ValuesIn(model_cases()), case_name);

class CudaDrawnModels : public GpuTest<::testing::Test> {};

TEST_F(CudaDrawnModels, GiveWhatTheCpuGives) {
  for (int seed = 1; seed <= 40 * test_rounds() && !HasFailure(); ++seed) {
    const ModelConfig config = drawn_model(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, description(config)));
    const Layout layout = drawn_layout(config);
    expect_equal_devices(config, layout, drawn_input(config, layout), drawn_run(layout), 1e-9);
  }
}

}  // namespace
}  // namespace nystrom::testing
