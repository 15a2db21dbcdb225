// Line charts as SVG files: what studies and reports show. The same numbers give the same text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// A line through points in order of x. Points that are not finite, or not positive on a
/// logarithmic axis, are left out, and the line is broken there.
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
  double width = 640, plot_height = 320;
};

/// A whole SVG document with letters that stay readable when it shrinks to a phone (a page gives it
/// max-width: 100 %), and colours that follow the reader's light or dark mode. A chart without any
/// point to draw says so.
std::string render_svg(const Chart& chart);

/// `series` with at most `most` points (at least 8): of each stretch of equal size, its lowest and
/// its highest point stay, and one that is not finite, so that peaks and breaks are seen; the first
/// and the last point stay too.
ChartSeries thinned(const ChartSeries& series, std::size_t most);

/// `text` as content of an element or a quoted attribute of XML or HTML.
std::string escape_markup(std::string_view text);

/// A number as charts and printed tables show it: four digits.
std::string short_number(double value);

}  // namespace nystrom
