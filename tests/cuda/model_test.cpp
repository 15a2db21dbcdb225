// Whole models on the GPU, forward and backward, compared with the reference results of the CPU
// tests.
#include "tests/cuda/device.h"
#include "tests/support/golden.h"

namespace nystrom::testing {
namespace {

class CudaGoldenTest : public GpuTest<::testing::TestWithParam<Golden>> {};

TEST_P(CudaGoldenTest, F64) { expect_equal(GetParam(), {DType::f64, 1e-9, 1e-9}, gpu); }
TEST_P(CudaGoldenTest, F32) { expect_equal(GetParam(), {DType::f32, 1e-4, 1e-3}, gpu); }

INSTANTIATE_TEST_SUITE_P(Fixtures, CudaGoldenTest, ::testing::ValuesIn(all_golden()),
                         [](const auto& test) { return test.param.kind + "_" + test.param.name; });

}  // namespace
}  // namespace nystrom::testing
