// Training on the GPU compared with the trace of float64 PyTorch that the CPU tests use.
#include "tests/cuda/device.h"
#include "tests/support/training_trace.h"

namespace nystrom::testing {
namespace {

class CudaTrainingTest : public GpuTest<> {};

TEST_F(CudaTrainingTest, F64EqualsPyTorch) { expect_trace(DType::f64, 1e-9, 1, gpu); }
TEST_F(CudaTrainingTest, F32EqualsPyTorch) { expect_trace(DType::f32, 1e-4, 1, gpu); }
TEST_F(CudaTrainingTest, F16StaysBesidePyTorch) { expect_trace(DType::f16, 2e-3, 1, gpu); }

}  // namespace
}  // namespace nystrom::testing
