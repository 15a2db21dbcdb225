#include "train/report/report_parts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/check.h"
#include "data/text/words.h"
#include "train/report/chart_scale.h"
#include "train/report/report_html.h"

namespace nystrom {
namespace {

constexpr std::size_t max_axes = 10;

/// "optimizer.learning_rate=2e-5" as option and value.
std::pair<std::string, std::string> parts_of(const std::string& override_text) {
  const std::size_t equals = std::min(override_text.find('='), override_text.size() - 1);
  return {override_text.substr(0, equals), override_text.substr(equals + 1)};
}

std::vector<std::string> options_of(const SweepResult& sweep) {
  std::vector<std::string> options;
  for (const SweepPoint& point : sweep.points) {
    for (const std::string& each : point.overrides) {
      const std::string option = parts_of(each).first;
      if (std::find(options.begin(), options.end(), option) == options.end())
        options.push_back(option);
    }
  }
  return options;
}

/// The values of a point in the order of `options`; "–" for one that it lacks.
std::vector<std::string> values_of(const SweepPoint& point,
                                   const std::vector<std::string>& options) {
  std::vector<std::string> values(options.size(), "–");
  for (const std::string& each : point.overrides) {
    const auto [option, value] = parts_of(each);
    const auto place = std::find(options.begin(), options.end(), option);
    values[static_cast<std::size_t>(place - options.begin())] = value;
  }
  return values;
}

std::string table_of(const SweepResult& sweep, const std::vector<std::string>& options) {
  std::vector<std::string> columns = options;
  columns.insert(columns.end(),
                 {"runs", sweep.metric + ", mean", "deviation", "lowest", "highest"});
  std::vector<std::vector<Cell>> rows;
  for (const SweepPoint& point : sweep.points) {
    std::vector<Cell> row;
    for (const std::string& value : values_of(point, options)) row.emplace_back(value);
    double low = NAN, high = low;
    for (const SweepRun& run : point.runs) {
      low = std::fmin(low, run.value);
      high = std::fmax(high, run.value);
    }
    // The deviation of a single run is unknown.
    const double deviation = point.runs.size() < 2 ? NAN : point.deviation();
    row.insert(row.end(),
               {static_cast<std::int64_t>(point.runs.size()), point.mean(), deviation, low, high});
    rows.push_back(std::move(row));
  }
  const SweepPoint& best = sweep.best();
  const int mark = std::isnan(best.mean()) ? -1 : static_cast<int>(&best - sweep.points.data());
  return html_table(columns, rows, mark);
}

// ---- The chart ----------------------------------------------------------------------------------

/// One run: a value for each option, and its metric.
struct ParallelLine {
  std::vector<std::string> values;
  double metric = 0;
};

/// Parallel coordinates: an axis for each option, with its values in order, and one for the metric.
struct ParallelChart {
  std::vector<std::string> options;  // the names of the axes
  std::string metric;
  std::vector<ParallelLine> lines;  // those with a metric that is not finite are left out
};

bool value_less(const std::string& a, const std::string& b) {
  const auto x = number_of<double>(a), y = number_of<double>(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

/// The different values of one option, in order: numbers by value, other texts by their letters.
std::vector<std::string> values_of(const std::vector<ParallelLine>& lines, std::size_t option) {
  std::set<std::string> values;
  for (const ParallelLine& line : lines) values.insert(line.values.at(option));
  std::vector<std::string> ordered(values.begin(), values.end());
  std::sort(ordered.begin(), ordered.end(), value_less);
  return ordered;
}

/// The better a run, the stronger its line; the best one has another colour.
class ParallelDrawing {
 public:
  explicit ParallelDrawing(const ParallelChart& chart) : chart_(chart) {
    for (const ParallelLine& line : chart.lines) {
      if (std::isfinite(line.metric)) lines_.push_back(line);
    }
    // The best line is drawn last, above the others.
    std::ranges::stable_sort(lines_, [&](const ParallelLine& a, const ParallelLine& b) {
      return is_worse(chart.metric, a.metric, b.metric);
    });
    std::vector<double> metrics;
    for (const ParallelLine& line : lines_) metrics.push_back(line.metric);
    metric_ = scale_of(Axis::linear, {&metrics}, -1e307);
    for (std::size_t i = 0; i < chart.options.size(); ++i) values_.push_back(values_of(lines_, i));
    const auto gaps = static_cast<double>(chart.options.size());
    width_ = std::max(min_width, left + right + min_spacing * gaps);
    spacing_ = (width_ - left - right) / std::max(1.0, gaps);
  }

  std::string draw() {
    for (std::size_t i = 0; i < lines_.size(); ++i) add_line(i);
    for (std::size_t i = 0; i < chart_.options.size(); ++i) add_option(i);
    add_metric();
    const double height = top + plot_height + 24;
    return svg_document(width_, height, "options against " + chart_.metric, body_);
  }

 private:
  static constexpr double left = 60, right = 80, top = 44, plot_height = 260, letter = 8.0;
  static constexpr double min_spacing = 150, min_width = 480;

  double x_of(std::size_t axis) const { return left + spacing_ * static_cast<double>(axis); }

  double y_of(double share) const { return top + (1 - share) * plot_height; }

  /// The height of a value: values stand at equal distances, a single one in the middle.
  double y_of(std::size_t option, const std::string& value) const {
    const std::vector<std::string>& all = values_[option];
    if (all.size() == 1) return y_of(0.5);
    const auto place = std::find(all.begin(), all.end(), value) - all.begin();
    return y_of(static_cast<double>(place) / static_cast<double>(all.size() - 1));
  }

  void add_line(std::size_t rank) {
    const bool best = rank + 1 == lines_.size();
    const double strength = static_cast<double>(rank + 1) / static_cast<double>(lines_.size());
    std::string points;
    for (std::size_t i = 0; i < chart_.options.size(); ++i)
      points += fmt::format("{:.1f},{:.1f} ", x_of(i), y_of(i, lines_[rank].values[i]));
    points += fmt::format("{:.1f},{:.1f}", x_of(chart_.options.size()),
                          y_of(metric_.share(lines_[rank].metric)));
    body_ += fmt::format(
        "<polyline class=\"l{}\" fill=\"none\" stroke-width=\"{}\" stroke-opacity=\"{:.2f}\" "
        "points=\"{}\"/>\n",
        best ? 1 : 0, best ? 3 : 1.5, best ? 1 : 0.2 + 0.6 * strength, points);
  }

  void add_text(double x, double y, const std::string& text, const char* anchor, double room,
                bool bold = false) {
    const double font = std::min(14.0, 14 * room / std::max(1.0, letter * letters(text)));
    body_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{:.1f}\"{}>{}</text>\n", x,
        y, anchor, font, bold ? " font-weight=\"bold\"" : "", escape_markup(text));
  }

  void add_axis(std::size_t axis, const std::string& name) {
    const double x = x_of(axis);
    body_ += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" class=\"axis\"/>\n", x,
        top, top + plot_height);
    add_text(x, top - 18, name, "middle", std::min(spacing_, 2 * left) - letter, true);
  }

  void add_option(std::size_t option) {
    add_axis(option, chart_.options[option]);
    const std::vector<std::string>& values = values_[option];
    const std::size_t stride = values.size() / 16 + 1;  // labels must not touch
    for (std::size_t i = 0; i < values.size(); i += stride)
      add_text(x_of(option) + 6, y_of(option, values[i]) + 5, values[i], "start",
               spacing_ - 2 * letter);
  }

  void add_metric() {
    const std::size_t axis = chart_.options.size();
    add_axis(axis, chart_.metric);
    const std::vector<std::string> labels = tick_labels(metric_);
    for (std::size_t i = 0; i < labels.size(); ++i)
      add_text(x_of(axis) + 6, y_of(metric_.share(metric_.ticks[i])) + 5, labels[i], "start",
               right - letter);
  }

  const ParallelChart& chart_;
  std::vector<ParallelLine> lines_;  // the worst first
  Scale metric_;
  std::vector<std::vector<std::string>> values_;  // by option
  double width_ = 0, spacing_ = 0;
  std::string body_;
};

std::string last_part(const std::string& option) {
  return option.substr(option.rfind('.') == option.npos ? 0 : option.rfind('.') + 1);
}

std::string parallel_of(const SweepResult& sweep, const std::vector<std::string>& options) {
  ParallelChart chart;
  chart.metric = sweep.metric;
  std::set<std::int64_t> seeds;
  for (const SweepPoint& point : sweep.points) {
    for (const SweepRun& run : point.runs) seeds.insert(run.seed);
  }
  for (const std::string& option : options) chart.options.push_back(last_part(option));
  if (seeds.size() > 1) chart.options.emplace_back("seed");
  if (chart.options.empty() || chart.options.size() > max_axes) return "";
  for (const SweepPoint& point : sweep.points) {
    for (const SweepRun& run : point.runs) {
      chart.lines.push_back({values_of(point, options), run.value});
      if (seeds.size() > 1) chart.lines.back().values.push_back(std::to_string(run.seed));
    }
  }
  return "<p class=\"soft\">Each line is a run. The better it is, the stronger its line; the best "
         "one is orange.</p>\n<div class=\"wide\"><figure class=\"parallel\">" +
         ParallelDrawing(chart).draw() + "</figure></div>\n";
}

}  // namespace

std::string html_sweep(const SweepResult& sweep) {
  if (sweep.points.empty()) return "";
  const std::vector<std::string> options = options_of(sweep);
  return table_of(sweep, options) + parallel_of(sweep, options);
}

}  // namespace nystrom
