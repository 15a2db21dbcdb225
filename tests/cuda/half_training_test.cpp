// Training in f16: its losses compared with f32, and gradients that overflow.
#include "core/base/file_io.h"
#include "tests/cuda/device.h"
#include "tests/support/errors.h"
#include "tests/support/models.h"
#include "tests/support/recorded_metric.h"
#include "tests/support/small_text.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"
#include "train/loop/train_step.h"
#include "train/objectives/pretrain.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

/// Heads with 32 channels, so that attention and convolution use tensor cores. There are more
/// tokens than landmarks.
ModelConfig model_config() {
  ModelConfig c;
  c.vocab_size = 40;
  c.hidden_size = 64;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.intermediate_size = 96;
  /// The inverse of 32 landmarks has its own kernel on new GPUs.
  c.max_position_embeddings = 40;
  c.attention.num_landmarks = 32;
  c.attention.conv_kernel_size = 5;
  return c;
}

Batch some_batch() {
  std::vector<std::int64_t> ids, labels;
  for (std::int64_t i = 0; i < 2 * 40; ++i) {
    const auto words = philox(philox_key(3, 0), {{static_cast<std::uint32_t>(i), 0, 0, 0}});
    ids.push_back(5 + words.word[0] % 35);
    labels.push_back(i % 4 == 0 ? ids.back() : ignore_index);
  }
  return {.input = {.input_ids = int_tensor(ids, {2, 40})},
          .labels = int_tensor(labels, {2, 40}),
          .sample_ids = int_tensor({0, 1}, {2})};
}

/// A model in training on the GPU.
struct Trained {
  explicit Trained(DType dtype, OptimizerKind kind = OptimizerKind::adamw) : model(model_config()) {
    ParameterStore& store = model.parameters();
    store.allocate(dtype, StoreMode::training, gpu);
    for (const Parameter& parameter : store.parameters())
      store.set(parameter.name(), weights_of(parameter, 2));
    OptimizerOptions config{.name = kind};
    optimizer.emplace(store, config);
  }
  StepResult step(double loss_scale, std::uint64_t number = 0) {
    StepOptions options{
        .learning_rate = 1e-3, .clip_norm = 1, .loss_scale = loss_scale, .step = number};
    return train_step(model, *optimizer, {&batch, 1}, options);
  }

  Batch batch = some_batch();
  Model model;
  std::optional<Optimizer> optimizer;
};

class HalfTrainingTest : public GpuTest<> {};

TEST_F(HalfTrainingTest, LossesAreThoseOfF32) {
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::muon}) {
    Trained half(DType::f16, kind), single(DType::f32, kind);
    for (std::uint64_t t = 0; t < 3; ++t) {
      const StepResult got = half.step(1024, t), expected = single.step(1, t);
      EXPECT_NEAR(got.loss, expected.loss, 2e-3 * expected.loss) << "step " << t;
      EXPECT_NEAR(got.gradient_norm, expected.gradient_norm, 1e-2 * expected.gradient_norm)
          << "step " << t;
    }
  }
}

TEST_F(HalfTrainingTest, TheScaleChangesNoStep) {
  Trained small(DType::f16), large(DType::f16);
  const StepResult first = small.step(256), second = large.step(4096);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_NEAR(first.gradient_norm, second.gradient_norm, 1e-3 * first.gradient_norm);
  EXPECT_LE(
      relative_difference(small.optimizer->state()[0].tensor, large.optimizer->state()[0].tensor),
      1e-3);  // a tenth of the clipped gradient
}

TEST_F(HalfTrainingTest, AnOverflowIsSkippedAndChangesNothing) {
  Trained trained(DType::f16);
  const auto before = trained.model.parameters().masters().to_doubles();
  const StepResult result = trained.step(0x1p60);
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isfinite(result.loss)) << "the loss itself is not scaled";
  EXPECT_EQ(trained.model.parameters().masters().to_doubles(), before);
  EXPECT_EQ(trained.optimizer->steps_taken(), 0);
  EXPECT_FALSE(trained.step(1024, 1).skipped) << "the next step goes on";
}

/// Complete runs that start from text.
class HalfRunTest : public HalfTrainingTest {
 protected:
  void SetUp() override {
    HalfTrainingTest::SetUp();
    write_small_text(folder_ / "text.txt");
  }

  RunSpec spec(const std::string& run_dir, const std::vector<std::string>& more) const {
    std::vector<std::string> overrides{"run_dir=" + (folder_ / run_dir).string(),
                                       "data.cache=" + (folder_ / "cache").string(),
                                       "data.train=[" + (folder_ / "text.txt").string() + "]"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const ConfigText yaml{
        "run.yaml",
        "model: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: "
        "32, max_position_embeddings: 32,\n"
        "  attention: {num_landmarks: 4, conv_kernel_size: 5}, initializer_range: 3.0}\n"
        "tokenizer: {train: {vocab_size: 32}}\n"
        "data: {validation_fraction: 0.02, documents: lines, sequence_length: 32}\n"
        "optimizer: {learning_rate: 1.0e-3}\n"
        "schedule: {warmup_steps: 2, decay: constant}\n"
        "training: {steps: 12, batch_size: 4, micro_batch_size: 4, dtype: f16}\n"
        "evaluation: {every: 100}\n"
        "logging: {every: 1, tensorboard: false, attention_every: null}\n"};
    return resolve(yaml, overrides, RunKind::pretraining);
  }
  void train(const std::string& run_dir, const std::vector<std::string>& more = {}) const {
    Log log(true);
    Communicator alone;
    pretrain(spec(run_dir, more), log, gpu, alone);
  }
  std::vector<double> metric(const std::string& run_dir, const std::string& name) const {
    return recorded_metric(folder_ / run_dir, name);
  }

  TemporaryFolder folder_;
};

TEST_F(HalfRunTest, FindsItsScaleAndGoesOnInTheSameBits) {
  train("straight");
  const std::vector<double> scales = metric("straight", "loss_scale"),
                            norms = metric("straight", "grad_norm");
  ASSERT_EQ(scales.size(), 12U);
  EXPECT_EQ(scales[0], 65536);
  for (std::size_t t = 0; t + 1 < scales.size(); ++t)
    EXPECT_EQ(scales[t + 1], std::isfinite(norms[t]) ? scales[t] : scales[t] / 2)
        << "step " << t + 1;
  EXPECT_LT(scales.back(), 65536 / 4)
      << "more overflows in a row than failed steps would end the run: the test tests something";
  EXPECT_TRUE(std::isfinite(norms.back()));

  train("parts", {"training.steps=2"});  // stops among the overflows
  train("parts", {"training.steps=9"});
  train("parts");
  EXPECT_EQ(metric("parts", "loss_scale"), scales);
  EXPECT_EQ(metric("parts", "loss"), metric("straight", "loss"));
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    const auto checksum = [&](const char* run) {
      return file_checksum(folder_ / run / "checkpoints" / "step-12" / file);
    };
    EXPECT_EQ(checksum("parts"), checksum("straight")) << file;
  }
}

TEST_F(HalfRunTest, FiguresOfAttentionAreOfTheLossAsItIs) {
  const std::vector<std::string> watched{"training.steps=3", "model.initializer_range=0.05",
                                         "logging.attention_every=3"};
  train("half", watched);
  auto single_precision = watched;
  single_precision.push_back("training.dtype=f32");
  train("single", single_precision);
  const std::vector<double> half = metric("half", "layer_0_inverse_gradient"),
                            single = metric("single", "layer_0_inverse_gradient");
  ASSERT_EQ(half.size(), 1U);
  EXPECT_NEAR(half[0], single[0], 0.05 * single[0]);
}

TEST_F(HalfRunTest, ALossThatIsNotFiniteEndsTheRun) {
  const std::string message = message_of([&] { train("run", {"model.initializer_range=40"}); });
  EXPECT_TRUE(message.starts_with("steps 1 to 3 had no finite gradient; "))
      << message << "; a smaller scale would not help: nothing waits for it";
}

#ifdef NYSTROM_CUDA_EMULATED
/// The oldest GPUs: f16 on tensor cores, little shared memory, nothing newer.
class TuringTest : public HalfTrainingTest {
 protected:
  void SetUp() override { emulation::set_gpu(emulation::turing); }
  void TearDown() override { emulation::set_gpu(emulation::hopper); }
};

TEST_F(TuringTest, TrainsInF16) {
  Trained turing(DType::f16);
  const StepResult got = turing.step(1024);
  emulation::set_gpu(emulation::hopper);
  Trained hopper(DType::f16);
  const StepResult expected = hopper.step(1024);
  EXPECT_NEAR(got.loss, expected.loss, 1e-3 * expected.loss);
  EXPECT_NEAR(got.gradient_norm, expected.gradient_norm, 1e-3 * expected.gradient_norm);
}

TEST_F(TuringTest, RefusesBf16) {
  EXPECT_EQ(message_of([] { Trained(DType::bf16); }),
            "cuda:0 is of compute capability 7.5, bf16 needs 8.0 or newer; use f16 or f32");
}

TEST_F(TuringTest, WideHeadsAttendWithoutTheSharedMemoryOfNewerOnes) {
  const auto run = [] {
    Tape tape;
    const auto leaf = [](std::uint64_t seed) {
      return Var::leaf(random_normal({1, 1, 70, 128}, seed).cast(DType::f16).to(gpu));
    };
    const Var q = leaf(1), k = leaf(2), v = leaf(3);
    const Var out = attention(q, k, v, {.scale = 0.1, .out = DType::f16});
    tape.backward(out, random_normal({1, 1, 70, 128}, 4).cast(DType::f16).to(gpu));
    return std::vector<Tensor>{out.value(), q.grad(), k.grad(), v.grad()};
  };
  const std::vector<Tensor> got = run();
  emulation::set_gpu(emulation::hopper);
  const std::vector<Tensor> expected = run();
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(relative_difference(got[i], expected[i]), 3e-3) << i;
}
#endif

}  // namespace
}  // namespace nystrom::testing
