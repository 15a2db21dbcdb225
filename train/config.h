// What a run is: one struct a section of its YAML file. A new section is a struct with its `fields` and one line in RunConfig's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/fields.h"
#include "nn/model_config.h"

namespace nystrom {

enum class OptimizerKind { adamw };
enum class Decay { linear, cosine, constant };

std::span<const EnumName<OptimizerKind>> enum_names(OptimizerKind);
std::span<const EnumName<Decay>> enum_names(Decay);
/// The types a model can compute in: bf16, f32, f64.
std::span<const EnumName<DType>> enum_names(DType);

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double learning_rate = 1e-4;
  double weight_decay = 0.01;
  std::vector<double> betas = {0.9, 0.999};
  double epsilon = 1e-8;
  std::optional<double> clip_norm = 1.0;
};

template <class V>
void fields(V& v, OptimizerConfig& c) {
  v(c.name, "name", "adamw: Adam with decoupled weight decay");
  v(c.learning_rate, "learning_rate", "peak learning rate", positive);
  v(c.weight_decay, "weight_decay", "weight decay; not of biases and layer normalisation", not_negative);
  v(c.betas, "betas", "decay of the first and the second moment", below_one);
  v(c.epsilon, "epsilon", "added to the root of the second moment", positive);
  v(c.clip_norm, "clip_norm", "largest norm of the whole gradient; null: no clipping", positive);
}

struct ScheduleConfig {
  std::int64_t warmup_steps = 10000;
  Decay decay = Decay::linear;
};

template <class V>
void fields(V& v, ScheduleConfig& c) {
  v(c.warmup_steps, "warmup_steps", "steps in which the learning rate rises to its peak", not_negative);
  v(c.decay, "decay", "of the learning rate after the warm-up. linear, cosine: towards zero; constant: none");
}

struct TrainingConfig {
  std::int64_t steps = 500000;
  std::int64_t batch_size = 256;
  std::int64_t micro_batch_size = 32;
  DType dtype = DType::bf16;
  bool activation_checkpointing = false;
  bool deterministic = false;
  std::int64_t zero = 0;
};

template <class V>
void fields(V& v, TrainingConfig& c) {
  v(c.steps, "steps", "optimizer steps of the whole run", at_least(1));
  v(c.batch_size, "batch_size", "sequences of one optimizer step, over all devices", at_least(1));
  v(c.micro_batch_size, "micro_batch_size", "sequences computed at once on one device; divides batch_size", at_least(1));
  v(c.dtype, "dtype", "type of the computation; weights and moments stay f32. f64: on CPU, for checks");
  v(c.activation_checkpointing, "activation_checkpointing", "recompute activations in the backward pass: less memory, more time");
  v(c.deterministic, "deterministic", "the same bits in every run on the same machine");
  v(c.zero, "zero", "what is spread over the devices. 0: nothing, every device holds the whole state", between(0, 0));
}

struct RunConfig {
  std::string run_dir = "runs/base";
  std::int64_t seed = 42;
  ModelConfig model;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainingConfig training;
};

template <class V>
void fields(V& v, RunConfig& c) {
  v(c.run_dir, "run_dir", "folder of the run's checkpoints and logs");
  v(c.seed, "seed", "of every random draw of the run", not_negative);
  v(c.model, "model", "the model");
  v(c.optimizer, "optimizer", "the optimizer");
  v(c.schedule, "schedule", "the learning rate over the steps");
  v(c.training, "training", "how the run computes");
}

/// Sections of a run's file about its text and its records. Commands that only look at the model skip them instead of reading them;
/// to the others a section that RunConfig does not have is an unknown key.
inline constexpr std::string_view sections_beyond_the_model[] = {"data",       "tokenizer",  "masking", "task",
                                                                 "evaluation", "checkpoint", "logging"};

/// Everything about `config` that its options' ranges cannot say, a line each, beginning with the path of the option at fault:
/// "schedule.warmup_steps 10000 exceeds training.steps 500; …". Empty: the run can start.
std::vector<std::string> validate(const RunConfig& config);

}  // namespace nystrom
