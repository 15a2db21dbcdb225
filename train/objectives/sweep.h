// A sweep: fine-tuning runs with several seeds over a grid of options, one after another.
#pragma once

#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/device.h"
#include "train/config/config_io.h"
#include "train/distributed/communicator.h"

namespace nystrom {

/// The options of a run that decide what its scores mean, and defaults otherwise: scores of runs
/// that differ in them cannot be compared. `folds`: the runs are of several folds.
RunConfig scored_by(const RunConfig& config, bool folds = false);

/// Parses one axis of a grid, "learning_rate=2e-5,3e-5", as overrides: an option's path with each
/// value, "optimizer.learning_rate=2e-5". Commas within brackets belong to a value: "betas=[0.9,
/// 0.95],[0.9, 0.999]" has two. The option is a path, or its last part if that is unambiguous.
/// Throws an InputError if the text is invalid or the option is run_dir or seed.
std::vector<std::string> parse_grid_axis(const std::string& text);

struct SweepOptions {
  std::int64_t seeds = 1;  ///< runs per point; their seeds count up from the configuration's seed
  std::vector<std::vector<std::string>> grid;  ///< the overrides of each axis
  bool folds = false;  ///< a run for each fold of task.folds or task.splits, in place of seeds
};

/// Whether a is worse than b, by a metric. NaN is worse than every number.
bool is_worse(const std::string& metric, double a, double b);

/// One finished run.
struct SweepRun {
  std::int64_t seed = 0;
  std::string folder;  ///< the run directory
  std::int64_t steps = 0, best_step = 0;
  std::string metric;  ///< the name of the task's metric
  /// The metric of the best checkpoint in validation; NaN if it is not defined. It decides which
  /// run is the best: the test part decides nothing.
  double value = 0;
  std::int64_t fold = 0;
  /// All metrics on the test part of a fold that has one.
  std::vector<std::pair<std::string, double>> test{};
};

/// A point of the grid: the runs with the same options.
struct SweepPoint {
  std::vector<std::string> overrides;  ///< "optimizer.learning_rate=2e-5"
  std::vector<SweepRun> runs;

  /// The overrides by the shortest names of their options: "learning_rate=2e-5", but
  /// "evaluation.every=5", for others are called every too. Empty without a grid.
  std::string name() const;
  /// The mean of the runs' values; NaN if one of them is NaN.
  double mean() const;
  /// The sample standard deviation (n − 1) of the runs' values; NaN for one run, and if the mean is
  /// NaN.
  double deviation() const;
  /// The names of the metrics on the test part; empty without one.
  std::vector<std::string> test_names() const;
  /// The runs with a metric on the test part as their values; NaN where a run has none.
  SweepPoint of_test(const std::string& name) const;
};

struct SweepResult {
  std::string metric;
  std::vector<SweepPoint> points;  ///< in the order of the grid, the last axis fastest
  bool interrupted = false;        ///< true: a stop signal ended the sweep; some runs are missing

  /// The point with the best mean: the largest, or the smallest loss. NaN is worse than any other.
  const SweepPoint& best() const;
};

/// Fine-tunes the configuration at `path` for each point and seed, in RUN_DIR/POINT/seed-S, or for
/// each fold, in RUN_DIR/POINT/fold-F.
/// Finished runs are not repeated; unfinished ones continue. RUN_DIR/summary.json is updated after
/// every run, with paths relative to RUN_DIR, as soon as it lacks none that it had. Throws an
/// InputError, before the first run, if a point is invalid, if RUN_DIR holds other files, if a link
/// leads out of it, or if its summary names runs that this sweep leaves out and that are still
/// there.
SweepResult run_sweep(const std::string& path, const std::vector<std::string>& overrides,
                      const SweepOptions& options, Log& log, Device device,
                      Communicator& communicator);

/// The results as a text table: one line per point, and a last line with the best point. Runs with
/// a test part have its metric beside that of validation.
std::string sweep_table(const SweepResult& result);

/// The results of folds as a text table for each point: a line per fold, then the mean and the
/// sample standard deviation of each metric on the test parts, or of validation's without them.
std::string fold_table(const SweepResult& result);

}  // namespace nystrom
