// Line charts as SVG, for studies and reports. The same numbers give the same text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nystrom {

/// A line through points in order of x. The line has a gap at points that are not finite, and at
/// non-positive points on a logarithmic axis.
struct ChartSeries {
  std::string name;  ///< in the legend
  std::vector<double> x, y;
  std::vector<double> low = {}, high = {};  ///< a band around the line, or empty
  bool dashed = false;
  /// The number of the line's colour, which related lines share; −1: the next colour. There are 16
  /// colours. The dashes of 8 and more differ too.
  int colour = -1;
  bool faint = false;   ///< thin and pale, for a line behind others
  bool points = false;  ///< points without a line
};

/// The scale of an axis. A logarithmic x axis has its ticks at the points, if their positions are
/// few.
enum class Axis { linear, logarithmic };

/// A chart of lines.
struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  Axis x_axis = Axis::linear, y_axis = Axis::linear;
  /// Lower values are drawn at this value, because rounding errors would stretch a logarithmic
  /// axis.
  double y_floor = 0;
  std::string note = {};  ///< a line below the legend
  double width = 640, plot_height = 320;
  /// Horizontal lines through the whole chart, such as a baseline: their names in the legend, and
  /// their y. Those that are not finite are left out.
  std::vector<std::pair<std::string, double>> levels = {};
};

/// The chart as a complete SVG document. Its letters stay readable on a phone (pages set max-width:
/// 100 %), and its colours follow the reader's light or dark mode. A chart without points contains
/// a note.
std::string render_svg(const Chart& chart);

/// `series` reduced to at most `most` points, at least 8. Each of several equal ranges keeps its
/// lowest and highest point and a non-finite one, so that peaks and gaps stay visible. The first
/// and the last point also stay.
ChartSeries thinned(const ChartSeries& series, std::size_t most);

/// `text` as content of an element or a quoted attribute in XML or HTML.
std::string escape_markup(std::string_view text);

/// Elements of an SVG document: a text, whose `anchor` is start, middle or end, and a line. `more`
/// are further attributes.
std::string svg_text(double x, double y, const std::string& content, const char* anchor,
                     const std::string& more);
std::string svg_line(double x1, double y1, double x2, double y2, const std::string& more);

/// `body` as a complete SVG document, with a <style> for the lines and areas of chart_colours
/// colours, classes l0, l1, … and b0, b1, …, in light and dark mode. `label` tells what it shows.
std::string svg_document(double width, double height, const std::string& label,
                         const std::string& body);
/// The number of different colours in a chart.
inline constexpr int chart_colours = 16;

// ---- Axes: their limits, their ticks and the labels of these (chart_scale.cpp) ------------------

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

/// A number with four or more digits, for charts and printed tables.
std::string short_number(double value, int digits = 4);

}  // namespace nystrom
