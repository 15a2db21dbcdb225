// Whole models on the GPU, forward and backward, compared with the reference results of the CPU
// tests, and with every option with those of the CPU.
#include "tests/cuda/device.h"
#include "tests/support/golden.h"
#include "tests/support/gradcheck.h"
#include "tests/support/model_cases.h"

namespace nystrom::testing {
namespace {

class CudaGoldenTest : public GpuTest<::testing::TestWithParam<Golden>> {};

TEST_P(CudaGoldenTest, F64) { expect_equal(GetParam(), {DType::f64, 1e-9, 1e-9}, gpu); }
TEST_P(CudaGoldenTest, F32) { expect_equal(GetParam(), {DType::f32, 1e-4, 1e-3}, gpu); }

INSTANTIATE_TEST_SUITE_P(Fixtures, CudaGoldenTest, ::testing::ValuesIn(all_golden()),
                         [](const auto& test) { return test.param.kind + "_" + test.param.name; });

class CudaModelOption : public GpuTest<::testing::TestWithParam<ModelCase>> {};

TEST_P(CudaModelOption, GivesWhatTheCpuGives) {
  const ModelConfig config = GetParam().config();
  const Layout layout{GetParam().rows};
  const auto results = [&](Device device) {
    const auto model = make_model(config, DType::f64, 1.7, device);
    Tape tape;
    const Var loss = loss_of(*model, layout, input_of(config, layout), GetParam().run());
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
    EXPECT_LE(max_difference(value, expected.at(name)), 1e-3 * GetParam().tolerance * scale)
        << name;
}

INSTANTIATE_TEST_SUITE_P(Options, CudaModelOption, ::testing::ValuesIn(model_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace nystrom::testing
