// Line charts as SVG files: what studies and reports show. The same numbers give the same text.
#pragma once

#include <string>
#include <vector>

namespace nystrom {

/// A line through points in order of x. Points that are not finite, or not positive on a logarithmic axis, are left out, and the line is
/// broken there.
struct ChartSeries {
  std::string name;  ///< in the legend
  std::vector<double> x, y;
  std::vector<double> low = {}, high = {};  ///< a band around the line, or empty
  bool dashed = false;
  /// Lines of one colour belong together; −1: the next colour.
  int colour = -1;
};

/// A logarithmic axis of x has its ticks where there are points, if these are few places.
enum class Axis { linear, logarithmic };

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  Axis x_axis = Axis::linear, y_axis = Axis::linear;
  /// Values below it are drawn at it: rounding errors would stretch a logarithmic axis.
  double y_floor = 0;
  std::string note = {};  ///< a line below the legend
};

/// A whole SVG document, 640 wide, with letters that stay readable when it shrinks to a phone (a page gives it max-width: 100 %), and
/// colours that follow the reader's light or dark mode. A chart without any point to draw says so.
std::string render_svg(const Chart& chart);

/// A number as charts and printed tables show it: four digits.
std::string short_number(double value);

}  // namespace nystrom
