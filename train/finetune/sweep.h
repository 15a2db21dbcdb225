// The same fine-tuning run with several seeds and over a grid of options, one after another.
#pragma once

#include <string>
#include <vector>

#include "core/device.h"
#include "train/config/config_io.h"
#include "train/distributed/communicator.h"
#include "train/logging/log.h"

namespace nystrom {

/// One axis of a grid: an option and its values, in YAML.
struct GridAxis {
  std::string option;  ///< its path: "optimizer.learning_rate"
  std::vector<std::string> values;
};

/// From "learning_rate=2e-5,3e-5": the option by its path, or by its last part where only one
/// option is called that. InputError.
GridAxis parse_grid_axis(const std::string& text);

struct SweepOptions {
  std::int64_t seeds = 1;  ///< runs of each point: with the configuration's seed, and the next ones
  std::vector<GridAxis> grid;
};

/// One finished run.
struct SweepRun {
  std::int64_t seed = 0;
  std::string folder;  ///< its run directory
  std::int64_t steps = 0, best_step = 0;
  std::string metric;  ///< the task's …
  double value = 0;    ///< … at the best checkpoint; NaN where no evaluation defined it
};

/// The runs with one choice of options.
struct SweepPoint {
  std::vector<std::string> overrides;  ///< "optimizer.learning_rate=2e-5"
  std::vector<SweepRun> runs;

  std::string name()
      const;  ///< the last parts of the overrides: "learning_rate=2e-5"; empty without a grid
  double mean() const;       ///< NaN where a run's value is
  double deviation() const;  ///< of the sample (n − 1); 0 for one run, NaN where the mean is
};

struct SweepResult {
  std::string metric;
  std::vector<SweepPoint> points;  ///< in the order of the grid, the last axis fastest
  bool interrupted = false;        ///< then the last runs are missing

  /// The point of the largest mean; a defined one where there is any.
  const SweepPoint& best() const;
};

/// Fine-tunes the configuration at `path` once a point and seed, in RUN_DIR/POINT/seed-S. Runs that
/// are finished are not run again, others go on where they were. RUN_DIR/summary.json holds what is
/// finished, after every run.
SweepResult run_sweep(const std::string& path, const std::vector<std::string>& overrides,
                      const SweepOptions& options, Log& log, Device device,
                      Communicator& communicator);

/// The table for people: a line a point, and the best.
std::string sweep_table(const SweepResult& result);

}  // namespace nystrom
