// Training on the GPU compared with the trace of float64 PyTorch that the CPU tests use, and a step
// with parameter groups and a teacher compared with the CPU's.
#include "tests/cuda/device.h"
#include "tests/support/models.h"
#include "tests/support/training_trace.h"
#include "train/loop/train_step.h"
#include "train/optim/parameter_groups.h"

namespace nystrom::testing {
namespace {

class CudaTrainingTest : public GpuTest<> {};

TEST_F(CudaTrainingTest, F64EqualsPyTorch) { expect_trace(DType::f64, 1e-9, 1, gpu); }
TEST_F(CudaTrainingTest, F32EqualsPyTorch) { expect_trace(DType::f32, 1e-4, 1, gpu); }
TEST_F(CudaTrainingTest, Bf16StaysBesidePyTorch) { expect_trace(DType::bf16, 1e-2, 1, gpu); }
TEST_F(CudaTrainingTest, F16StaysBesidePyTorch) { expect_trace(DType::f16, 2e-3, 1, gpu); }

struct Healed {
  StepResult last;
  std::vector<double> parameters;
};

/// Three steps with a teacher, a frozen table, and taps that learn faster.
Healed heal(DType dtype, Device device, OptimizerKind kind, double loss_scale = 1) {
  ModelConfig config = tiny_config();
  config.head = Head::masked_lm;
  ModelConfig exact = config;
  exact.attention.kind = AttentionKind::softmax;
  exact.attention.conv_kernel_size.reset();
  OptimizerOptions options{.name = kind,
                           .layer_decay = 0.5,
                           .groups = {{"*.position_embeddings.weight", 1, std::nullopt, true},
                                      {"*.conv.weight", 10, 0.0}}};
  Model student(config);
  auto teacher = std::make_unique<Model>(exact);
  freeze_parameters(student.parameters(), options);
  student.parameters().allocate(dtype, StoreMode::training, device);
  teacher->parameters().allocate(dtype, StoreMode::inference, device);
  for (ParameterStore* store : {&student.parameters(), &teacher->parameters()})
    for (const Parameter& parameter : store->parameters())
      store->set(parameter.name(), weights_of(parameter, store == &student.parameters() ? 2 : 3));
  const Distillation distillation{{.teacher = "teacher"}, std::move(teacher)};
  Batch batch{.input = input_of(config, Layout{{"11111111", "11111100"}}),
              .labels = Tensor::full({2, 8}, ignore_index, DType::i64)};
  for (const int place : {1, 6, 9, 12}) batch.labels.data<std::int64_t>()[place] = 2 + place % 5;
  batch.sample_ids = int_tensor({0, 1}, {2});
  batch.tokens = 14;
  Optimizer optimizer(student.parameters(), options);
  Healed result;
  for (std::uint64_t t = 0; t < 3; ++t) {
    StepOptions step{.learning_rate = 1e-3,
                     .clip_norm = 1,
                     .loss_scale = loss_scale,
                     .step = t,
                     .distillation = &distillation};
    result.last = train_step(student, optimizer, {&batch, 1}, step);
  }
  result.parameters = student.parameters().masters().to(cpu_device).to_doubles();
  return result;
}

TEST_F(CudaTrainingTest, HealingIsThatOfTheCpu) {
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::muon}) {
    const Healed expected = heal(DType::f64, cpu_device, kind), got = heal(DType::f64, gpu, kind);
    EXPECT_NEAR(got.last.loss, expected.last.loss, 1e-10);
    ASSERT_EQ(got.last.figures[2].first, "distillation_attention_output");
    EXPECT_NEAR(got.last.figures[2].second, expected.last.figures[2].second, 1e-10);
    ASSERT_EQ(got.parameters.size(), expected.parameters.size());
    for (std::size_t i = 0; i < got.parameters.size(); ++i)
      ASSERT_NEAR(got.parameters[i], expected.parameters[i], 1e-7) << i;
  }
}

TEST_F(CudaTrainingTest, TheLossScaleIsThatOfTheTeachersLossesToo) {
  const Healed small = heal(DType::f16, gpu, OptimizerKind::adamw, 64),
               large = heal(DType::f16, gpu, OptimizerKind::adamw, 1024);
  EXPECT_NEAR(small.last.gradient_norm, large.last.gradient_norm, 2e-3 * large.last.gradient_norm);
}

/// Losses, draws and gradients.
TEST_F(CudaTrainingTest, ReplacedTokensAreThoseOfTheCpu) {
  ModelConfig config = tiny_config();
  config.head = Head::replaced_tokens;
  config.generator.emplace();
  Tensor labels = Tensor::full({2, 8}, ignore_index, DType::i64);
  for (const int place : {1, 6, 9, 12}) labels.data<std::int64_t>()[place] = 2 + place % 5;
  const RunContext run{true, false, 3, 4, int_tensor({7, 8}, {2})};
  const auto trained = [&](Device device) {
    Model model(config);
    model.parameters().allocate(DType::f64, StoreMode::training, device);
    for (const Parameter& parameter : model.parameters().parameters())
      model.parameters().set(parameter.name(), weights_of(parameter, 2));
    Tape tape;
    const ReplacedTokensOutput out = model.replaced_tokens(
        input_of(config, Layout{{"11111111", "11111100"}}), labels, {4, 14, 50}, run);
    tape.backward(out.loss);
    std::vector<double> numbers = model.parameters().gradients().to(cpu_device).to_doubles();
    numbers.push_back(out.loss.value().item());
    for (const std::int64_t count : {out.guessed, out.replaced, out.found, out.right})
      numbers.push_back(static_cast<double>(count));
    return numbers;
  };
  const std::vector<double> expected = trained(cpu_device), got = trained(gpu);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-9) << i;
}

}  // namespace
}  // namespace nystrom::testing
