// cuDNN makes plans of the attention graphs for a GPU that is only described. Its compiler runs,
// but its kernels do not.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/base/error.h"
#include "core/cuda/attention/attention_graphs.h"

namespace nystrom::testing {
namespace {

using cuda::cudnn::Graph;
using cuda::cudnn::Plan;
using cuda::cudnn::Target;

/// The result of cudaGetDeviceProperties on an H100.
constexpr const char* h100 =
    R"({"cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,
  "deviceName": "NVIDIA H100 80GB HBM3", "multiProcessorCount": 132,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "warpSize": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "l2CacheSize": 52428800,
  "totalGlobalMem": 85899345920, "smClockRateKHz": 1980000,
  "memClockRateKHz": 2619000, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1})";

CView view(DType dtype, std::initializer_list<std::int64_t> shape,
           std::initializer_list<std::int64_t> stride) {
  CView made;
  made.dtype = dtype;
  made.rank = static_cast<int>(shape.size());
  std::ranges::copy(shape, made.shape);
  std::ranges::copy(stride, made.stride);
  return made;
}

constexpr std::int64_t samples = 2, heads = 3;

struct Size {
  std::int64_t length, width;
};
void PrintTo(const Size& size, std::ostream* out) {
  *out << size.length << " x " << size.width;
}  // NOLINT: GoogleTest's name

/// Loads the stub first, so that cuDNN finds it by its name even next to a real driver.
void load_stub() {
  ASSERT_NE(::dlopen(NYSTROM_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
}

class AttentionPlansTest : public ::testing::TestWithParam<Size> {
 protected:
  static void SetUpTestSuite() { load_stub(); }
  void SetUp() override {
    if (!cuda::cudnn::library().usable) GTEST_SKIP() << cuda::cudnn::library().text;
  }
  static Plan plan_of(Graph (*graph_of)(std::span<const CView>)) {
    const auto [n, d] = GetParam();
    // The model's layout, [b, n, h, d].
    const CView x = view(DType::bf16, {samples, heads, n, d}, {n * heads * d, d, heads * d, 1});
    const CView log_sum_exp = view(DType::f32, {samples, heads, n}, {heads * n, n, 1});
    const std::array<CView, 9> operands{x, x, x, x, log_sum_exp, x, x, x, x};
    return graph_of(operands).plan(Target(h100));
  }
};

TEST_P(AttentionPlansTest, ForwardKeepsNothingOfTheScores) {
  EXPECT_LE(plan_of(cuda::attention_graph).workspace, 4096);
}

/// Sums without atomics need this matrix. Less memory would mean an engine whose bits differ
/// between runs.
TEST_P(AttentionPlansTest, BackwardKeepsOneMatrixOfThemInBf16) {
  const std::int64_t n = GetParam().length,
                     workspace = plan_of(cuda::attention_grad_graph).workspace;
  EXPECT_GE(workspace, samples * heads * n * n * 2);
  EXPECT_LE(workspace, samples * heads * n * n * 2 + 4096);
}

TEST(AttentionPlans, RefusalsAreErrors) {
  load_stub();
  if (!cuda::cudnn::library().usable) GTEST_SKIP() << cuda::cudnn::library().text;
  const auto plan = [](std::int64_t width) {
    const CView x = view(DType::bf16, {1, 1, 128, width}, {128 * width, 128 * width, width, 1});
    const CView sums = view(DType::f32, {1, 1, 128}, {128, 128, 1}),
                operands[] = {x, x, x, x, sums};
    return cuda::attention_graph(operands).plan(Target(h100));
  };
  EXPECT_NO_THROW(plan(64));
  EXPECT_THROW(plan(65), Error);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionPlansTest,
                         ::testing::Values(Size{128, 64}, Size{384, 64}, Size{512, 64},
                                           Size{128, 32}, Size{128, 80}, Size{128, 128}),
                         [](const auto& test) {
                           return std::to_string(test.param.length) + "x" +
                                  std::to_string(test.param.width);
                         });

}  // namespace
}  // namespace nystrom::testing
