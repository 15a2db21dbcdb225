// One optimizer step: micro-batches, clipping, non-finite values, memory, and determinism.
#include "train/loop/train_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/threads.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

ModelConfig config_of(std::int64_t layers = 2, std::int64_t hidden = 16) {
  ModelConfig config = tiny_config();
  config.vocab_size = 40;
  config.num_hidden_layers = layers;
  config.hidden_size = hidden;
  config.intermediate_size = 2 * hidden;
  config.max_position_embeddings = 64;
  config.head = Head::masked_lm;
  return config;
}

const std::vector<std::string> text_rows = {"111111111111", "111111110000", "110000000000",
                                            "111101110111"};
// The rows have different numbers of masked tokens.
const std::vector<std::vector<int>> chosen = {{0, 3, 4, 7, 11}, {2}, {}, {1, 9}};

Tensor labels_of_rows() {
  Tensor labels = Tensor::full({4, 12}, ignore_index, DType::i64);
  for (std::size_t b = 0; b < chosen.size(); ++b) {
    for (const int t : chosen[b])
      labels.data<std::int64_t>()[12 * b + static_cast<std::size_t>(t)] =
          2 + static_cast<std::int64_t>(7 * b) + t;
  }
  return labels;
}

/// Splits the batch into `parts` micro-batches.
std::vector<Batch> batch_in(const ModelConfig& config, std::int64_t parts) {
  const ModelInput whole = input_of(config, {text_rows});
  const Tensor labels = labels_of_rows(), samples = int_tensor({40, 41, 42, 43}, {4});
  std::vector<Batch> micro;
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto part = [&](const Tensor& x) {
      return x.slice(0, p * 4 / parts, (p + 1) * 4 / parts).contiguous();
    };
    micro.push_back({.input = {part(whole.input_ids),
                               {},
                               part(whole.attention_mask),
                               part(whole.token_type_ids)},
                     .labels = part(labels),
                     .sample_ids = part(samples)});
  }
  return micro;
}

StepOptions options_of(std::uint64_t step, bool checkpointing = false) {
  StepOptions options;
  options.clip_norm = 1.0;
  options.seed = 9;
  options.step = step;
  options.activation_checkpointing = checkpointing;
  return options;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<std::pair<std::string, Tensor>> parameters;
};

Trained train(DType dtype, std::int64_t parts, int steps) {
  const ModelConfig config = config_of();
  const auto model = make_model(config, dtype);
  Optimizer optimizer(model->parameters(), OptimizerOptions{});
  Trained result;
  for (int t = 0; t < steps; ++t) {
    const StepResult step = train_step(*model, optimizer, batch_in(config, parts),
                                       options_of(static_cast<std::uint64_t>(t)));
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  }
  for (const Parameter& p : model->parameters().parameters())
    result.parameters.emplace_back(p.name(), model->parameters().master(p.name()).clone());
  return result;
}

class MicroBatches : public ::testing::TestWithParam<std::pair<DType, double>> {};

TEST_P(MicroBatches, GiveTheSameLossAndParameters) {
  const auto& [dtype, tolerance] = GetParam();
  const Trained whole = train(dtype, 1, 3);
  for (const std::int64_t parts : {2, 4}) {
    SCOPED_TRACE(parts);
    const Trained split = train(dtype, parts, 3);
    for (std::size_t t = 0; t < 3; ++t) {
      EXPECT_NEAR(split.losses[t], whole.losses[t], tolerance * whole.losses[t])
          << "step " << t + 1;
      EXPECT_NEAR(split.norms[t], whole.norms[t], 10 * tolerance * whole.norms[t])
          << "step " << t + 1;
    }
    for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
      if (is_key_bias(whole.parameters[i].first))
        continue;  // no influence: Adam follows the noise of its gradient
      EXPECT_LE(relative_difference(split.parameters[i].second, whole.parameters[i].second),
                tolerance)
          << whole.parameters[i].first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MicroBatches,
                         ::testing::Values(std::pair(DType::f64, 1e-12),
                                           std::pair(DType::f32, 1e-6)),
                         [](const auto& test) { return std::string(name_of(test.param.first)); });

TEST(TrainStep, TwoRunsGiveTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Trained first = train(dtype, 2, 4), second = train(dtype, 2, 4);
    EXPECT_EQ(first.losses, second.losses);
    for (std::size_t i = 0; i < first.parameters.size(); ++i) {
      EXPECT_EQ(first.parameters[i].second.to_doubles(), second.parameters[i].second.to_doubles())
          << first.parameters[i].first;
    }
  }
}

TEST(TrainStep, ClipsByTheNormOfTheWholeGradient) {
  const ModelConfig config = config_of();
  const auto clipped = make_model(config, DType::f64), by_hand = make_model(config, DType::f64);
  Optimizer first(clipped->parameters(), OptimizerOptions{}),
      second(by_hand->parameters(), OptimizerOptions{});
  StepOptions options = options_of(0);
  options.clip_norm = 0.01;
  options.dropout = false;
  const auto batch = batch_in(config, 1);
  const StepResult result = train_step(*clipped, first, batch, options);
  ASSERT_GT(result.gradient_norm, 0.01);
  second.zero_gradients();
  Tape tape;
  tape.backward(by_hand->masked_lm(batch[0].input, batch[0].labels, 0, {}).loss);
  EXPECT_NEAR(second.gradient_norm(), result.gradient_norm, 1e-12 * result.gradient_norm);
  second.step(options.learning_rate, 0.01 / (result.gradient_norm + 1e-6));
  EXPECT_LE(relative_difference(clipped->parameters().masters(), by_hand->parameters().masters()),
            1e-14);
}

TEST(TrainStep, SkipsWhatIsNotFinite) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const ModelConfig config = config_of();
    const auto model = make_model(config, dtype);
    ParameterStore& store = model->parameters();
    store.set(
        "cls.predictions.bias",
        Tensor::full({config.vocab_size}, std::numeric_limits<double>::quiet_NaN(), DType::f32));
    Optimizer optimizer(store, OptimizerOptions{});
    const Tensor before = store.masters().clone();
    EXPECT_TRUE(train_step(*model, optimizer, batch_in(config, 2), options_of(0)).skipped);
    EXPECT_EQ(std::memcmp(store.masters().data<float>(), before.data<float>(),
                          static_cast<std::size_t>(before.bytes())),
              0);
    EXPECT_EQ(optimizer.steps_taken(), 0);
    EXPECT_EQ(largest(optimizer.state()[0].tensor), 0);
    store.set("cls.predictions.bias", Tensor::zeros({config.vocab_size}, DType::f32));
    EXPECT_FALSE(train_step(*model, optimizer, batch_in(config, 2), options_of(1)).skipped)
        << "the next step goes on";
  }
}

TEST(TrainStep, SkipsWhatHasNothingToPredict) {
  const ModelConfig config = config_of();
  const auto model = make_model(config, DType::f32);
  Optimizer optimizer(model->parameters(), OptimizerOptions{});
  auto batch = batch_in(config, 1);
  batch[0].labels = Tensor::full({4, 12}, ignore_index, DType::i64);
  const StepResult result = train_step(*model, optimizer, batch, options_of(0));
  EXPECT_TRUE(result.skipped && !result.has_targets && std::isnan(result.loss));
  EXPECT_EQ(optimizer.steps_taken(), 0);
}

TEST(TrainStep, AsksTheSystemForNothingFromTheThirdStepOn) {
  for (const bool checkpointing : {false, true}) {
    SCOPED_TRACE(checkpointing);
    const ModelConfig config = config_of();
    const auto model = make_model(config, DType::f32);
    Optimizer optimizer(model->parameters(), OptimizerOptions{});
    const auto batch = batch_in(config, 2);
    const Arena& arena = Arena::of(cpu_device);
    ArenaStatistics after_two;
    for (std::uint64_t t = 0; t < 6; ++t) {
      train_step(*model, optimizer, batch, options_of(t, checkpointing));
      const ArenaStatistics now = arena.statistics();
      if (t == 1) after_two = now;
      if (t < 2) continue;
      EXPECT_EQ(now.system_allocations, after_two.system_allocations) << "step " << t + 1;
      EXPECT_EQ(now.in_use_bytes, after_two.in_use_bytes) << "step " << t + 1;
      EXPECT_EQ(now.reserved_bytes, after_two.reserved_bytes) << "step " << t + 1;
    }
  }
}

TEST(TrainStep, ActivationCheckpointingLowersPeakMemory) {
  /// Each thread needs its own memory for products, more than the layers of this model.
  const int threads = num_threads();
  set_num_threads(1);
  const ModelConfig config = config_of(8, 32);
  const auto model = make_model(config, DType::f32);
  Optimizer optimizer(model->parameters(), OptimizerOptions{});
  const auto batch = batch_in(config, 1);
  Arena& arena = Arena::of(cpu_device);
  const auto peak_of_step = [&](bool checkpointing) {
    arena.reset_peak();
    const std::int64_t before = arena.statistics().in_use_bytes;
    train_step(*model, optimizer, batch, options_of(0, checkpointing));
    return arena.statistics().peak_in_use_bytes - before;
  };
  const std::int64_t plain = peak_of_step(false), checkpointed = peak_of_step(true);
  EXPECT_LT(checkpointed, plain / 3)
      << "one layer's activations and eight inputs instead of eight layers'";
  set_num_threads(threads);
}

}  // namespace
}  // namespace nystrom::testing
