#include "tests/support/training_trace.h"

namespace nystrom::testing {
namespace {

TEST(TrainingTrace, F64EqualsPyTorch) { expect_trace(DType::f64, 1e-9, 1); }
TEST(TrainingTrace, F32EqualsPyTorch) { expect_trace(DType::f32, 1e-4, 1); }

}  // namespace
}  // namespace nystrom::testing
