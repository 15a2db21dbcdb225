// The interface in which masked language models and tasks differ: data, loss and metric. The loop
// in train/loop/trainer.h is common to both.
#pragma once

#include <filesystem>
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

/// The data of a run, and the measure that judges it.
struct RunData {
  // A resumed run must find these unchanged.
  std::string tokenizer, data, validation;  ///< hashes of the tokenizer and of the data
  std::string teacher{};     ///< hash of the teacher of distillation.teacher; empty without one
  std::int64_t samples = 0;  ///< training samples of an epoch
  /// The output of a new regression head before the first step: the mean of the training values.
  std::optional<double> first_value{};
  std::string metric_name{};      ///< the name of Score::value, such as "loss"
  bool higher_is_better = false;  ///< whether a higher Score::value is better
  /// For a checkpoint; none if the run has no tokenizer.
  std::vector<TokenizerFile> tokenizer_files{};
  /// The rank that computes each micro-batch of a step, in the order of the whole step.
  std::vector<int> micro_batch_ranks{};
  /// Files of which `data` and `validation` may know some rows alone (BagFile::is_large).
  std::vector<std::filesystem::path> large_files{};
};

/// Training data, validation data and loss of a run.
class Objective {
 public:
  virtual ~Objective() = default;

  /// The facts that do not change while the run trains.
  const RunData& data() const { return run_data_; }

  /// Lets the next step use batch number `batch`, from 0. Earlier batches are skipped at no cost.
  virtual void start(std::int64_t batch) = 0;
  /// Whether the losses of batches number `a` and `b` may be compared: data of one kind.
  virtual bool are_comparable(std::int64_t /*a*/, std::int64_t /*b*/) const { return true; }
  /// Runs one optimizer step on this process's part of the next batch; `tokens` counts that part.
  virtual StepResult step(Model& model, Optimizer& optimizer, const StepOptions& options) = 0;

  /// Called during an evaluation, with the number of samples done.
  using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;
  /// Evaluates the model on the held-out data, without dropout. The processes share the work and
  /// get the same score. Exceptions of `progress` pass through.
  virtual Score evaluate(const Model& model, const EvaluationProgress& progress) = 0;
  /// A line for the run's mask_samples_file (train/loop/metrics.h); empty if the objective has
  /// no samples to show.
  virtual std::string samples(const Model&, std::int64_t /*step*/) const { return ""; }

 protected:
  RunData run_data_;
};

}  // namespace nystrom
