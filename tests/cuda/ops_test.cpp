// The table of ops on the GPU compared with the CPU, in every type.
#include <gtest/gtest.h>

#include "tests/cuda/device.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

class CudaOpTest : public GpuTest<::testing::TestWithParam<OpCase>> {};

void expect_close(const OpCase& test, DType dtype, double tolerance) {
  const auto inputs = case_inputs(test);
  expect_close(evaluate(test, inputs, dtype, gpu), evaluate(test, inputs, DType::f64), tolerance);
}

TEST_P(CudaOpTest, F64EqualsTheCpu) {
  expect_close(GetParam(), DType::f64,
               std::string_view(GetParam().name).starts_with("pinv") ? 1e-10 : 1e-12);
}

TEST_P(CudaOpTest, F32EqualsTheCpusF64) {
  expect_close(GetParam(), DType::f32,
               std::string_view(GetParam().name).starts_with("pinv") ? 2e-3 : 1e-5);
}

TEST_P(CudaOpTest, Bf16EqualsF64UpToItsRounding) {
  if (!GetParam().low_precision) return;
  expect_close(GetParam(), DType::bf16, 2e-2);
}

TEST_P(CudaOpTest, F16EqualsF64UpToItsRounding) {
  if (!GetParam().low_precision) return;
  expect_close(GetParam(), DType::f16, 2.5e-3);
}

TEST_P(CudaOpTest, TwoRunsGiveEqualBits) {
  const auto inputs = case_inputs(GetParam());
  const auto first = evaluate(GetParam(), inputs, DType::f32, gpu);
  run_threads_backward();
  const auto second = evaluate(GetParam(), inputs, DType::f32, gpu);
  EXPECT_EQ(first.output.to_doubles(), second.output.to_doubles());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(first.gradients[i].to_doubles(), second.gradients[i].to_doubles()) << "input " << i;
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaOpTest, ::testing::ValuesIn(op_cases()), case_name);

}  // namespace
}  // namespace nystrom::testing
