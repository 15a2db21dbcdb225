// What a run learns from, and by what it is judged: the part in which masked language models and
// tasks differ. The loop of train/loop/trainer.h does all the rest.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "train/logging/metrics.h"
#include "train/loop/train_step.h"

namespace nystrom {

/// What one evaluation on held-out data says.
struct Score {
  double value = 0;  ///< decides which checkpoint is the best
  Metrics metrics;   ///< recorded, with "validation_" in front of their names
  std::string text;  ///< for people: "loss 2.3412, accuracy 51.2 %"
};

/// What a run must find again to go on.
struct DataIdentity {
  std::string tokenizer, data, validation;     ///< hashes
  std::string data_option, validation_option;  ///< name the files: "data.train", "data.validation"
};

/// One step, and how many tokens it saw.
struct ObjectiveStep {
  StepResult result;
  std::int64_t tokens = 0;
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual DataIdentity identity() const = 0;
  /// Training samples of an epoch.
  virtual std::int64_t samples() const = 0;
  /// What Score::value is, and whether more of it is better: "loss", false.
  virtual std::string metric_name() const = 0;
  virtual bool higher_is_better() const = 0;
  /// What a checkpoint holds of the tokenizer; nothing where there is none.
  virtual std::vector<TokenizerFile> tokenizer_files() const = 0;

  /// The process that computes each micro-batch of a step, in the order of the whole step.
  virtual std::vector<int> micro_batch_ranks() const = 0;
  /// The next step uses batch number `batch`, from 0. Costs nothing for those before.
  virtual void start(std::int64_t batch) = 0;
  /// One optimizer step on the next batch, this process's part of it: `tokens` are its own.
  virtual ObjectiveStep step(Model& model, Optimizer& optimizer, const StepOptions& options) = 0;

  using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;
  /// The score of the model on the held-out data; no dropout. Spread over the processes, the same
  /// in each. What `progress` throws passes through.
  virtual Score evaluate(const Model& model, const EvaluationProgress& progress) = 0;
  /// A line for the run's mask_samples_file (train/logging/metrics.h); empty where there is nothing
  /// to show.
  virtual std::string samples(const Model&, std::int64_t /*step*/) const { return ""; }
};

}  // namespace nystrom
