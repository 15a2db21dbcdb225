// The results of a sweep, as HTML.
#pragma once

#include <string>

#include "train/objectives/sweep.h"

namespace nystrom {

/// A table of the points with means and deviations, and the options of every run against the
/// metric. Empty without points.
std::string html_sweep(const SweepResult& sweep);

}  // namespace nystrom
