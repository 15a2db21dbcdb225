// What a run knows of itself beside weights and moments, and the settings it belongs to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/optim/loss_scale.h"
#include "train/optim/loss_watch.h"

namespace nystrom {

/// The content of a checkpoint's state.json. Everything random comes from counters of seed, epoch,
/// sample and step, so there is no random state; the place in the data is next_batch() · batch_size
/// sequences.
struct RunState {
  std::int64_t step = 0;
  std::int64_t updates = 0;  ///< steps that changed the parameters
  std::int64_t skipped_in_a_row = 0;
  std::optional<LossScale> loss_scale;  ///< of f16 alone
  std::optional<LossWatch> losses;      ///< of pretraining alone
  /// Where the run rolls back to: the last step saved as the configuration has it, at a usual loss;
  /// 0 where there is none. A checkpoint that a stop leaves does not count, so that runs that were
  /// stopped end as those that were not.
  std::int64_t anchor = 0;
  /// Batches that the run rolled back behind, and does not use again.
  struct SkippedBatches {
    std::int64_t step;     ///< … they come after
    std::int64_t batches;  ///< how many
  };
  std::vector<SkippedBatches> skipped_batches;  ///< in the order of the steps
  std::optional<double> best_value;  ///< the best evaluation's, as the run's objective judges
  std::int64_t best_step = 0;
  std::int64_t evaluations_since_best = 0;
  std::int64_t evaluated_step = 0;  ///< the last
  std::string tokenizer, data;      ///< hashes of what the run learns from …
  std::string validation;  ///< … and is judged on; empty in checkpoints of older versions
  std::string settings;    ///< a hash of its resolved configuration
  std::string version;     ///< of the program

  /// The step of the best evaluation, if there was one.
  std::optional<std::int64_t> best() const {
    return best_value ? std::optional(best_step) : std::nullopt;
  }

  /// The number of the batch that the next step uses, from 0.
  std::int64_t next_batch() const;

  std::string to_json() const;
  /// InputError naming the file when it holds something else.
  static RunState read(const std::filesystem::path& path);
};

/// Refuses a folder that holds something else than a run. Writes nothing.
void check_run_place(const std::filesystem::path& run_dir);
/// check_run_place, and refuses a run directory with checkpoints of other settings, naming the
/// changed keys (steps, epochs, zero, timeout, on_loss_spike, logging, evaluation and checkpoint
/// may change, and the names of the run directory and the cache). Writes nothing.
void check_run_dir(const RunConfig& config);
/// check_run_dir, and then writes the resolved configuration into the run directory.
void write_resolved_config(const RunConfig& config);

}  // namespace nystrom
