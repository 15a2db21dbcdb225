// Parallel coordinates: the options of several runs against a metric, as SVG.
#pragma once

#include <string>
#include <vector>

namespace nystrom {

/// One run: a value for each option, and its metric.
struct ParallelLine {
  std::vector<std::string> values;
  double metric = 0;
};

/// An axis for each option, with its values in order, and one for the metric.
struct ParallelChart {
  std::vector<std::string> options;  ///< the names of the axes
  std::string metric;
  bool higher_is_better = true;
  std::vector<ParallelLine> lines;  ///< those with a metric that is not finite are left out
};

/// The chart as a complete SVG document. The better a run, the stronger its line; the best one has
/// another colour. Numbers are ordered by value, other texts by their letters.
std::string render_parallel_svg(const ParallelChart& chart);

}  // namespace nystrom
