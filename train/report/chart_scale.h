// The axes of charts: their limits, their ticks and the labels of these.
#pragma once

#include <string>
#include <vector>

#include "train/report/chart.h"

namespace nystrom {

/// One axis: its limits and its ticks.
struct Scale {
  bool log = false;
  double low = 0, high = 1;
  std::vector<double> ticks;

  /// Whether the axis has a place for `value`.
  bool shows(double value) const;
  /// The position on the axis, from 0 at the low end to 1 at the high end.
  double share(double value) const;
};

/// An axis for the values from `low` to `high`, with about six ticks. Equal limits are spread.
/// Logarithmic limits must be positive.
Scale make_scale(Axis axis, double low, double high);

/// The axis for all `values` that it can show. Lower values than `floor` stand on it.
Scale scale_of(Axis axis, const std::vector<const std::vector<double>*>& values, double floor);

/// A label for each tick. Labels of different ticks differ. Those of a linear axis have as many
/// decimals as their distance needs. They are fixed numbers of at most 7 characters, or the shorter
/// of fixed and scientific numbers.
std::vector<std::string> tick_labels(const Scale& scale);

/// The number of characters of a label in UTF-8.
double letters(const std::string& text);

}  // namespace nystrom
