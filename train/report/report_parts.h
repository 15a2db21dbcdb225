// The parts of report pages, as HTML.
#pragma once

#include <string>
#include <vector>

#include "train/objectives/sweep.h"
#include "train/report/run_history.h"
#include "train/report/task_findings.h"

namespace nystrom {

// ---- Charts of metrics (report_curves.cpp) ------------------------------------------------------

/// Charts of the metrics that evaluations on held-out data measured, the decisive one first and the
/// loss second. They have the baseline, and the same metrics of training. Empty without any.
std::string validation_curves(const RunHistory& run);
/// Charts of the other metrics. Those that differ only in a number share one. Empty without any.
std::string training_curves(const RunHistory& run);
/// Charts of the metrics of layers, collapsed. Empty without any.
std::string layer_curves(const RunHistory& run);

/// One chart for each metric, with a line for each run; the metrics of evaluations come first.
std::string compared_curves(const std::vector<RunHistory>& runs);

// ---- Predictions and sweeps (report_task.cpp, report_sweep.cpp) ---------------------------------

/// The confusions, the calibration and the most wrong predictions. Empty without findings.
std::string html_findings(const TaskFindings& findings);

/// A table of the points with means and deviations, and the options of every run against the
/// metric. Empty without points.
std::string html_sweep(const SweepResult& sweep);

}  // namespace nystrom
