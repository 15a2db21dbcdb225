// The interface in which masked language models and tasks differ: data, loss and metric. The loop
// in train/loop/trainer.h is common to both.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "train/loop/metrics.h"
#include "train/loop/train_step.h"

namespace nystrom {

/// The result of one evaluation on held-out data.
struct Score {
  double value = 0;  ///< the value that decides which checkpoint is the best
  Metrics metrics;   ///< all metrics; recorded with "validation_" in front of their names
  std::string text;  ///< a summary for the log: "loss 2.3412, accuracy 51.2 %"
};

/// The data that a resumed run must find unchanged.
struct DataIdentity {
  std::string tokenizer, data, validation;  ///< hashes of the tokenizer and of the data
  std::string data_option,
      validation_option;  ///< the options that name the files: "data.train", "data.validation"
  std::string teacher{};  ///< hash of the teacher of distillation.teacher; empty without one
};

/// The result of one step, and the number of tokens that it used.
struct ObjectiveStep {
  StepResult result;
  std::int64_t tokens = 0;
  /// Not empty: the data of this step and the next ones is of another kind, as the text says. Loss
  /// and speed are not comparable with those before.
  std::string new_stage{};
};

/// Training data, validation data and loss of a run.
class Objective {
 public:
  virtual ~Objective() = default;

  /// Hashes of the tokenizer and the data.
  virtual DataIdentity identity() const = 0;
  /// The number of training samples of an epoch.
  virtual std::int64_t samples() const = 0;
  /// The name of Score::value, such as "loss".
  virtual std::string metric_name() const = 0;
  /// Whether a higher Score::value is better; false for "loss".
  virtual bool higher_is_better() const = 0;
  /// The tokenizer's files for a checkpoint; none if the run has no tokenizer.
  virtual std::vector<TokenizerFile> tokenizer_files() const = 0;

  /// The rank that computes each micro-batch of a step, in the order of the whole step.
  virtual std::vector<int> micro_batch_ranks() const = 0;
  /// Lets the next step use batch number `batch`, from 0. Earlier batches are skipped at no cost.
  virtual void start(std::int64_t batch) = 0;
  /// Whether the losses of batches number `a` and `b` may be compared: data of one kind.
  virtual bool are_comparable(std::int64_t /*a*/, std::int64_t /*b*/) const { return true; }
  /// Runs one optimizer step on this process's part of the next batch; `tokens` counts that part.
  virtual ObjectiveStep step(Model& model, Optimizer& optimizer, const StepOptions& options) = 0;

  /// Called during an evaluation, with the number of samples done.
  using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;
  /// Evaluates the model on the held-out data, without dropout. The processes share the work and
  /// get the same score. Exceptions of `progress` pass through.
  virtual Score evaluate(const Model& model, const EvaluationProgress& progress) = 0;
  /// A line for the run's mask_samples_file (train/loop/metrics.h); empty if the objective has
  /// no samples to show.
  virtual std::string samples(const Model&, std::int64_t /*step*/) const { return ""; }
};

}  // namespace nystrom
