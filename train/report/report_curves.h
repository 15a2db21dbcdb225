// The charts of a run's metrics, as HTML.
#pragma once

#include <string>
#include <vector>

#include "train/report/run_history.h"

namespace nystrom {

/// Charts of the metrics that evaluations on held-out data measured, the decisive one first and the
/// loss second. They have the baseline, and the same metrics of training. Empty without any.
std::string validation_curves(const RunHistory& run);
/// Charts of the other metrics. Those that differ only in a number share one. Empty without any.
std::string training_curves(const RunHistory& run);
/// Charts of the metrics of layers, collapsed. Empty without any.
std::string layer_curves(const RunHistory& run);

/// One chart for each metric, with a line for each run; the metrics of evaluations come first.
std::string compared_curves(const std::vector<RunHistory>& runs);

}  // namespace nystrom
