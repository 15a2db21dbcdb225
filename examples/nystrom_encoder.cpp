// An encoder built from nystrom's layers. It learns from random sequences which of two tokens
// occurs more often, and is saved as safetensors.
#include <cstdio>
#include <random>

#include "nn/encoder.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/optim/weight_average.h"
#include "train/state/safetensors.h"

using namespace nystrom;

constexpr std::int64_t rows = 16, length = 64, steps = 150;

/// Sequences of tokens 0 to 7. The label says whether token 1 occurs more often than token 2.
Batch random_batch(std::mt19937& random) {
  std::vector<std::int64_t> ids, labels, numbers;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t balance = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      ids.push_back(random() % 8);
      balance += (ids.back() == 1) - (ids.back() == 2);
    }
    labels.push_back(balance > 0);
    numbers.push_back(row);
  }
  return {.input = {.input_ids = Tensor::from(ids, {rows, length})},
          .labels = Tensor::from(labels, {rows}),
          .sample_ids = Tensor::from(numbers, {rows})};
}

int main() {
  ModelConfig config;
  config.vocab_size = 8;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = length;
  config.attention.num_landmarks = 8;

  ParameterStore parameters;
  const Scope root(parameters);
  const Encoder encoder(root / "nystromformer", config);
  const Linear classifier(root / "classifier", config.hidden_size, 2);
  parameters.allocate(DType::f32, StoreMode::training);
  parameters.initialise(/*seed=*/1, /*standard_deviation=*/0.05);

  Optimizer optimizer(parameters, {.weight_decay = 0.01});
  WeightAverage average(parameters, /*decay=*/0.99);
  const ScheduleOptions schedule{.warmup_steps = 20, .decay = Decay::cosine};
  std::mt19937 random(1);
  double mean_loss = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = random_batch(random);
    RunContext run{.training = true,
                   .seed = 1,
                   .step = static_cast<std::uint64_t>(step),
                   .sample_ids = batch.sample_ids};
    Tape tape;
    const Var hidden = encoder(batch.input, {rows, length}, run);
    const Var loss = cross_entropy(classifier(mean(hidden, 1)), batch.labels);
    tape.backward(loss);
    optimizer.step(learning_rate(3e-3, schedule, steps, step),
                   clip_factor(optimizer.gradient_norm(), /*limit=*/1));
    optimizer.zero_gradients();
    average.update(step);
    mean_loss += loss.value().item() / 50;
    if (step % 50 != 0) continue;
    std::printf("step %3d  mean loss %.4f\n", static_cast<int>(step), mean_loss);
    if (step < steps) mean_loss = 0;
  }

  average.with_average([&] {
    std::vector<NamedTensor> weights;
    for (const Parameter& each : parameters.parameters())
      weights.push_back({each.name(), parameters.master(each.name())});
    write_safetensors("nystrom_encoder.safetensors", weights);
  });
  return mean_loss < 0.5 ? 0 : 1;
}
