// What a run left on disk, read for people to look at: settings, metrics and the end of its log.
// The run may still be going.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace nystrom {

/// The values of one metric by step, in order; NaN where the run recorded null.
struct MetricCurve {
  std::vector<double> steps, values;
};

/// One evaluation on held-out data: metrics without "validation_" in front of their names.
struct EvaluationRecord {
  std::int64_t step = 0;
  std::map<std::string, double> metrics;
};

struct RunRecord {
  std::filesystem::path path;
  std::string name;  ///< how a report calls it
  RunConfig config;

  std::map<std::string, MetricCurve>
      curves;  ///< all metrics; those of evaluations are called "validation_…"
  std::vector<EvaluationRecord> evaluations;
  std::int64_t steps = 0;                    ///< the last that was recorded
  std::optional<std::int64_t> total_steps;   ///< of the whole run, where that is known
  std::optional<std::int64_t> parameters{};  ///< by the log
  bool stopped_early = false;

  std::vector<std::string> notes;     ///< what of the files could not be read
  std::vector<std::string> warnings;  ///< the last of the log
  std::vector<std::string> log_end;   ///< its last lines

  /// What decides which evaluation is the best, and in which direction: of a masked language model
  /// the loss, else the task's metric.
  std::string metric_name() const;
  bool higher_is_better() const;
  /// The evaluation by which the best checkpoint was chosen; null when there is none yet.
  const EvaluationRecord* best() const;
};

/// Reads the run in `folder`. A metrics.jsonl that is missing or damaged in places gives notes; a
/// last line without an end is one that is being written, and passed over. InputError when the
/// folder holds no run, or its config.yaml cannot be read.
RunRecord read_run(const std::filesystem::path& folder);

}  // namespace nystrom
