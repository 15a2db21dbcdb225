// Training without text: batches that depend only on their numbers.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/check.h"
#include "tests/support/models.h"
#include "train/loop/trainer.h"

namespace nystrom::testing {

/// The configuration of the model that learns from these batches.
inline ModelConfig config_of(AttentionKind kind) {
  ModelConfig config = tiny_config();
  config.attention.kind = kind;
  config.attention.projected_length = 8;
  config.vocab_size = 40;
  config.num_hidden_layers = 3;
  config.max_position_embeddings = 64;
  config.head = Head::masked_lm;
  return config;
}

/// The run of a NumberedObjective with `processes` processes and without a run directory.
inline RunConfig numbered_run(int processes) {
  RunConfig config;
  config.model = config_of(AttentionKind::nystrom);
  config.data.sequence_length = 12;
  config.training.dtype = DType::f32;
  config.training.batch_size = config.training.micro_batch_size = processes;
  config.schedule.warmup_steps = 0;
  config.evaluation.every = 1000;
  return config;
}

/// Trains a run that has neither tokenizer nor data; it resumes by itself.
inline void train_numbered(const RunConfig& config, Objective& objective, Log& log, Device device,
                           Communicator& communicator) {
  const RunSpec spec{.options = config, .saved = read_saved_run(config.run_dir)};
  const RunSession session(spec, log, communicator);
  train_run(session, spec, objective, device);
}

inline Batch micro_batch(std::int64_t number) {
  Tensor ids = Tensor::full({2, 12}, 0, DType::i64),
         labels = Tensor::full({2, 12}, ignore_index, DType::i64);
  Tensor samples = Tensor::full({2}, 0, DType::i64);
  for (std::int64_t i = 0; i < 24; ++i)
    ids.data<std::int64_t>()[i] = 5 + (number * 31 + i * 17) % 35;
  for (std::int64_t i = 0; i < 24; i += 3 + number % 3)
    labels.data<std::int64_t>()[i] = 5 + (number * 13 + i) % 35;
  for (std::int64_t i = 0; i < 2; ++i) samples.data<std::int64_t>()[i] = 2 * number + i;
  return {.input = {.input_ids = ids}, .labels = labels, .sample_ids = samples};
}

/// An objective of `processes` processes, with one micro-batch each in every step. Its evaluations
/// have no result.
class NumberedObjective : public Objective {
 public:
  NumberedObjective(int rank, int processes) : rank_(rank), processes_(processes) {
    run_data_ = {.tokenizer = "tokenizer",
                 .data = "data",
                 .validation = "validation",
                 .samples = 1000,
                 .metric_name = "loss"};
    for (int each = 0; each < processes_; ++each) run_data_.micro_batch_ranks.push_back(each);
  }

  void start(std::int64_t batch) override { next_ = batch; }
  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const Batch batch = micro_batch(next_++ * processes_ + rank_);
    StepResult done = train_step(model, optimizer, {&batch, 1}, options);
    done.tokens = 24;
    return done;
  }
  Score evaluate(const Model&, const EvaluationProgress&) override { return {}; }

 protected:
  std::int64_t next_ = 0;

 private:
  int rank_, processes_;
};

/// Reports a far too large loss for batches with some numbers.
class SpikingObjective : public NumberedObjective {
 public:
  using Far = std::function<bool(std::int64_t batch)>;
  SpikingObjective(int rank, int processes, Far far)
      : NumberedObjective(rank, processes), far_(std::move(far)) {}

  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    const std::int64_t batch = next_;
    StepResult done = NumberedObjective::step(model, optimizer, options);
    done.loss = far_(batch) ? 9 : 4 + 0.1 * std::sin(static_cast<double>(batch));
    return done;
  }

 private:
  Far far_;
};

/// Skips some batches: number `from` − 1 is followed by `from` + `batches`.
class ShorterObjective : public NumberedObjective {
 public:
  ShorterObjective(int rank, int processes, std::int64_t from, std::int64_t batches)
      : NumberedObjective(rank, processes), from_(from), batches_(batches) {}
  StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) override {
    if (next_ == from_) next_ += batches_;
    return NumberedObjective::step(model, optimizer, options);
  }

 private:
  std::int64_t from_, batches_;
};

}  // namespace nystrom::testing
