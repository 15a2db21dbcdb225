// One output for a long text, from the outputs for its windows.
#pragma once

#include <span>
#include <vector>

#include "data/tasks/task_config.h"

namespace nystrom {

/// The output of a text: per entry the mean or the largest over its windows, as `windows` says; for
/// `first` there is one window. `outputs` holds one row of equal length for each window, at least
/// one.
std::vector<double> merge_windows(TaskWindows windows,
                                  std::span<const std::vector<double>> outputs);

}  // namespace nystrom
