// The kernels of a training step: their launches as counted, beside those that the cost of a kernel
// states, and the step of a planned GPU, which computes nothing, beside the real one.
#include "tests/cuda/device.h"
#include "train/plan/step_plan.h"

namespace nystrom::testing {
namespace {

struct Case {
  const char* name;
  DType dtype;
  std::int64_t hidden, landmarks, length, conv;
  AttentionKind attention = AttentionKind::nystrom;
  bool checkpointing = false;
};
void PrintTo(const Case& test, std::ostream* out) {
  *out << test.name;
}  // NOLINT: GoogleTest's name

const Case cases[] = {
    {"bf16_on_tensor_cores", DType::bf16, 64, 32, 70, 33},
    {"bf16_more_landmarks_than_a_tile", DType::bf16, 64, 80, 90, 5},
    {"f32_plain", DType::f32, 24, 4, 20, 5},
    {"bf16_split_over_keys", DType::bf16, 64, 32, 600, 0},
    {"bf16_exact", DType::bf16, 64, 32, 130, 0, AttentionKind::softmax},
    {"f16_with_checkpoints", DType::f16, 64, 32, 40, 5, AttentionKind::nystrom, true},
    {"f64_short_sequences", DType::f64, 24, 4, 4, 3},
};

BenchOptions options_of(const Case& test, Device device) {
  BenchOptions options;
  options.layers = 2, options.heads = 2, options.batch = 2, options.vocab = 56;
  options.hidden = test.hidden, options.landmarks = test.landmarks, options.length = test.length;
  options.conv = test.conv, options.dtype = test.dtype, options.attention = test.attention;
  options.activation_checkpointing = test.checkpointing;
  options.device = device;
  return options;
}

class LaunchesTest : public GpuTest<::testing::TestWithParam<Case>> {};

TEST_P(LaunchesTest, AreThoseOfTheKernelsCosts) {
  const StepPlan step = record_step(options_of(GetParam(), gpu));
  EXPECT_GT(step.ops.size(), 90U);
  for (const StepOp& op : step.ops)
    EXPECT_EQ(op.launches, op.cost.launches) << op.name << " in layer " << op.layer;
}

TEST_P(LaunchesTest, APlannedGpuRunsTheSameKernels) {
  const StepPlan step = record_step(options_of(GetParam(), gpu)),
                 plan = record_step(options_of(GetParam(), {Device::Kind::planned, 0}));
  ASSERT_EQ(plan.ops.size(), step.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    EXPECT_EQ(plan.ops[i].name, step.ops[i].name) << i;
    EXPECT_EQ(plan.ops[i].layer, step.ops[i].layer) << plan.ops[i].name;
    EXPECT_EQ(plan.ops[i].cost.bytes, step.ops[i].cost.bytes) << plan.ops[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, LaunchesTest, ::testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace nystrom::testing
