// The state of a run beside weights and moments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/optim/loss_scale.h"
#include "train/optim/loss_watch.h"

namespace nystrom {

/// The content of a checkpoint's state.json. All randomness comes from counters of seed, epoch,
/// sample and step, so there is no random state to save. The position in the data follows from
/// next_batch().
struct RunState {
  std::int64_t step = 0;
  std::int64_t updates = 0;  ///< steps that changed the parameters
  std::int64_t skipped_in_a_row = 0;
  std::optional<LossScale> loss_scale;  ///< for f16 only
  std::optional<LossWatch> losses;      ///< for pretraining only
  /// The step that a loss spike rolls back to: the last scheduled checkpoint at an ordinary loss, 0
  /// if there is none. A checkpoint that is saved because of an interruption does not count, so
  /// interrupted and uninterrupted runs give the same result.
  std::int64_t anchor = 0;
  /// Batches that a rollback skips for good.
  struct SkippedBatches {
    /// The step after which the batches would come.
    std::int64_t step;
    /// The number of batches.
    std::int64_t batches;
  };
  std::vector<SkippedBatches> skipped_batches;  ///< ordered by step
  std::optional<double> best_value;  ///< value of the best evaluation, by the objective's metric
  std::int64_t best_step = 0;
  std::int64_t evaluations_since_best = 0;
  std::int64_t evaluated_step = 0;  ///< the step of the last evaluation
  std::string tokenizer, data;      ///< hashes of the training data and its tokenizer
  std::string validation;           ///< hash of the validation data
  std::string teacher;              ///< hash of the teacher; empty without one
  std::string start;                ///< hash of the weights of model.from; empty without it
  std::string settings;             ///< hash of the resolved configuration
  std::string version;              ///< version of the program

  /// The step of the best evaluation; nothing before the first evaluation.
  std::optional<std::int64_t> best() const {
    return best_value ? std::optional(best_step) : std::nullopt;
  }

  /// The number of the batch that the next step uses, from 0.
  std::int64_t next_batch() const;

  /// The content of state.json.
  std::string to_json() const;
  /// Reads state.json at `path`. Throws an InputError that names the file when the content is
  /// invalid.
  static RunState read(const std::filesystem::path& path);
};

}  // namespace nystrom
