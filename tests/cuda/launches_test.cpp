// The launches of a training step. A launch costs a GPU's host microseconds, so none may join
// unnoticed.
#include "core/cuda/runtime.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "train/plan/bench.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  std::int64_t launches;  // of a layer that is not the last
  DType dtype;
  std::int64_t hidden, landmarks, length, conv;
  AttentionKind attention = AttentionKind::nystrom;
  bool checkpointing = false;
};

const Case cases[] = {
    {"bf16_on_tensor_cores", 45, DType::bf16, 64, 32, 70, 33},
    {"bf16_more_landmarks_than_a_tile", 54, DType::bf16, 64, 80, 90, 5},
    {"f32_plain", 62, DType::f32, 24, 4, 20, 5},
    {"bf16_split_over_keys", 48, DType::bf16, 64, 32, 600, 0},
    {"bf16_exact", 39, DType::bf16, 64, 32, 130, 0, AttentionKind::softmax},
    {"f16_with_checkpoints", 61, DType::f16, 64, 32, 40, 5, AttentionKind::nystrom, true},
    {"f64_short_sequences", 47, DType::f64, 24, 4, 4, 3},
};

BenchOptions options_of(const Case& test, Device device) {
  BenchOptions options;
  options.heads = 2, options.batch = 2, options.vocab = 56;
  options.hidden = test.hidden, options.landmarks = test.landmarks, options.length = test.length;
  options.conv = test.conv, options.dtype = test.dtype, options.attention = test.attention;
  options.activation_checkpointing = test.checkpointing;
  options.device = device;
  return options;
}

/// The launches of a step with `layers` layers, after one that makes plans and caches.
std::int64_t launches_of(const Case& test, std::int64_t layers, Device device) {
  BenchOptions options = options_of(test, device);
  options.layers = layers;
  BenchRun run(options);
  run.step(0);
  const std::int64_t before = cuda::launches();
  run.step(1);
  return cuda::launches() - before;
}

class LaunchesTest : public GpuTest<::testing::TestWithParam<Case>> {};

TEST_P(LaunchesTest, OfALayer) {
  const Case& test = GetParam();
  EXPECT_EQ(launches_of(test, 3, gpu) - launches_of(test, 2, gpu), test.launches);
}

INSTANTIATE_TEST_SUITE_P(Steps, LaunchesTest, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace nystrom::testing
