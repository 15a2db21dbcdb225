// The settings, metrics and log of a run on disk, for reports. The run may still be in progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace nystrom {

/// The values of one metric by step, in order. NaN stands for a recorded null.
struct MetricCurve {
  std::vector<double> steps, values;
};

/// One evaluation on held-out data. Names of metrics have no "validation_" in front.
struct EvaluationRecord {
  std::int64_t step = 0;
  std::map<std::string, double> metrics;
};

/// The content of a run directory.
struct RunRecord {
  std::filesystem::path path;
  std::string name;  ///< its name in reports
  RunConfig config;

  /// All metrics. Those of evaluations are named "validation_…".
  std::map<std::string, MetricCurve> curves;
  std::vector<EvaluationRecord> evaluations;
  std::int64_t steps = 0;                    ///< the last recorded step
  std::optional<std::int64_t> total_steps;   ///< steps of the whole run, if known
  std::optional<std::int64_t> parameters{};  ///< from the log
  bool stopped_early = false;

  std::vector<std::string> notes;     ///< problems with the files
  std::vector<std::string> warnings;  ///< the log's last warnings
  std::vector<std::string> log_end;   ///< the log's last lines

  /// The metric of the best evaluation: the loss of a masked language model, else the task's
  /// metric.
  std::string metric_name() const;
  /// Whether a higher value of that metric is better.
  bool higher_is_better() const;
  /// The evaluation of the best checkpoint; null before the first.
  const EvaluationRecord* best() const;
};

/// Reads the run in `folder`. A missing or partly damaged metrics.jsonl gives notes. A last line
/// without line end is being written and is ignored. Throws an InputError when the folder holds no
/// run, or when its config.yaml is invalid.
RunRecord read_run(const std::filesystem::path& folder);

}  // namespace nystrom
