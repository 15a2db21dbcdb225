// Forward and backward compared with float64 results of transformers 4.57.1 (fixtures/hf, and
// fixtures/architectures for BERT's family).
// Independent references check our own semantics (fixtures/nystrom) and the other attention kinds
// (fixtures/baselines).
#include "tests/support/golden.h"

namespace nystrom::testing {
namespace {

class GoldenTest : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenTest, F64) { expect_equal(GetParam(), {DType::f64, 1e-9, 1e-9}); }
TEST_P(GoldenTest, F32) { expect_equal(GetParam(), {DType::f32, 1e-4, 1e-3}); }

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenTest, ::testing::ValuesIn(all_golden()),
                         [](const auto& test) { return test.param.kind + "_" + test.param.name; });

}  // namespace
}  // namespace nystrom::testing
