// The settings, metrics and log of a run on disk, and the studies in its folder, for reports. The
// run may still be in progress.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/report/chart.h"

namespace nystrom {

/// One evaluation on held-out data. Names of metrics have no "validation_" in front.
struct EvaluationRecord {
  std::int64_t step = 0;
  std::map<std::string, double> metrics;
};

/// A warning of the log, and how often it came. Warnings about single steps are the same warning
/// if they differ only in numbers.
struct RunWarning {
  std::string text;  ///< the last one, without its time
  std::int64_t count = 1;
};

/// The content of a run directory.
struct RunHistory {
  std::filesystem::path path;
  std::string name;  ///< its name in reports
  RunConfig config;
  std::string data{};  ///< a hash of the training data, by the newest checkpoint; empty if unknown
  std::string validation{}, tokenizer{};  ///< those of the validation data and the tokenizer

  /// The values y of all metrics except the baseline by steps x, in order, without names. NaN
  /// stands for a recorded null. Metrics of evaluations are called "validation_…".
  std::map<std::string, ChartSeries> curves;
  std::vector<EvaluationRecord> evaluations;
  /// The decisive metric of a baseline that ignores its input, if known: "validation_baseline".
  std::optional<double> baseline{};
  std::int64_t steps = 0;                    ///< the last recorded step
  std::optional<std::int64_t> total_steps;   ///< steps of the whole run, if known
  std::optional<std::int64_t> parameters{};  ///< from the log
  bool stopped_early = false;
  std::string error{};  ///< by the log, of a run that ended in one

  std::vector<std::string> notes;    ///< problems with the files, and the error
  std::vector<RunWarning> warnings;  ///< those of the log, in the order of their first appearance
  std::vector<std::string> log_end;  ///< the log's last lines

  /// The metric of the best evaluation: the loss of a masked language model, else the task's
  /// metric.
  std::string metric_name() const;
  /// The name of the baseline: "by token frequency", or for tasks "always the same answer".
  std::string baseline_name() const;
  /// The evaluation of the best checkpoint; null before the first.
  const EvaluationRecord* best() const;
};

/// A name or message with each number replaced by "#": metrics of different layers share a chart,
/// and warnings about different steps a line.
std::string without_numbers(const std::string& text);

/// Reads the run in `folder`. A missing or partly damaged metrics.jsonl gives notes. A last line
/// without line end is being written and is ignored. Throws an InputError when the folder holds no
/// run, or when its config.yaml is invalid.
RunHistory read_run_history(const std::filesystem::path& folder);

/// Pictures and sentences of a study, from the folder `approximation` of a run.
struct StudyFindings {
  std::vector<std::string> verdict;
  std::vector<std::string> pictures;  ///< complete SVG documents
};
/// Reads the results of `nystrom approximation … --output RUN/approximation`; empty without that
/// folder. Throws an InputError when they are damaged.
StudyFindings read_study(const std::filesystem::path& run_dir);

}  // namespace nystrom
