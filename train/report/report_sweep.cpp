#include "train/report/report_html.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/words.h"
#include "core/check.h"
#include "train/config/config_docs.h"

namespace nystrom {
namespace {

constexpr std::size_t max_axes = 10;
constexpr double letter_width = 8;

/// "optimizer.learning_rate=2e-5" as option and value.
std::pair<std::string, std::string> parts_of(const std::string& override_text) {
  const std::size_t equals = std::min(override_text.find('='), override_text.size() - 1);
  return {override_text.substr(0, equals), override_text.substr(equals + 1)};
}

std::vector<std::string> options_of(const SweepResult& sweep) {
  std::vector<std::string> options;
  for (const SweepPoint& point : sweep.points)
    for (const std::string& each : point.overrides) {
      const std::string option = parts_of(each).first;
      if (std::find(options.begin(), options.end(), option) == options.end())
        options.push_back(option);
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
  const bool tested = !sweep.points.at(0).test_names().empty();
  if (tested) columns.insert(columns.end(), {"on the test part, mean", "deviation"});
  std::vector<std::vector<Cell>> rows;
  for (const SweepPoint& point : sweep.points) {
    std::vector<Cell> row;
    for (const std::string& value : values_of(point, options)) row.emplace_back(value);
    double low = NAN, high = low;
    for (const SweepRun& run : point.runs) {
      low = std::fmin(low, run.value);
      high = std::fmax(high, run.value);
    }
    row.insert(row.end(), {static_cast<std::int64_t>(point.runs.size()), point.mean(),
                           point.deviation(), low, high});
    if (const SweepPoint test = point.of_test(sweep.metric); tested)
      row.insert(row.end(), {test.mean(), test.deviation()});
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

/// Numbers by value, before other texts, of which NaN is one: it is neither less nor more.
bool value_less(const std::string& a, const std::string& b) {
  const double x = number_of<double>(a).value_or(NAN), y = number_of<double>(b).value_or(NAN);
  if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
  return x < y || (!(y < x) && a < b);
}

/// The different values of one option, in order.
std::vector<std::string> values_of(const std::vector<ParallelLine>& lines, std::size_t option) {
  std::set<std::string, decltype(&value_less)> values(value_less);
  for (const ParallelLine& line : lines) values.insert(line.values.at(option));
  return {values.begin(), values.end()};
}

/// The font of a text that fits into `room`.
std::string fitting_font(const std::string& text, double room) {
  return fmt::format(" font-size=\"{:.1f}\"",
                     std::min(14.0, 14 * room / std::max(1.0, letter_width * letters(text))));
}

/// Parallel coordinates: an axis for each of `options`, with its values in order, and one for the
/// metric. The better a run, the stronger its line; the best one has another colour.
std::string parallel_svg(const std::vector<std::string>& options, const std::string& metric,
                         std::vector<ParallelLine> lines) {
  constexpr double left = 60, right = 80, top = 44, height = 260, min_spacing = 150;
  const auto gaps = static_cast<double>(options.size());
  const double width = std::max(480.0, left + right + min_spacing * gaps),
               spacing = (width - left - right) / gaps;
  const auto x_of = [&](std::size_t axis) { return left + spacing * static_cast<double>(axis); };
  const auto y_of = [](double share) { return top + (1 - share) * height; };
  // The best line is drawn last, above the others. Of equals it is the first, as in the table.
  std::ranges::reverse(lines);
  std::ranges::stable_sort(lines, [&](const ParallelLine& a, const ParallelLine& b) {
    return is_worse(metric, a.metric, b.metric);
  });
  std::vector<double> metrics;
  std::vector<std::string> points(lines.size());
  for (const ParallelLine& line : lines) metrics.push_back(line.metric);
  std::string axes;
  const auto add_axis = [&](std::size_t axis, const std::string& name) {
    const double x = x_of(axis);
    axes += svg_line(x, top, x, top + height, "class=\"axis\"");
    axes += svg_text(
        x, top - 18, name, "middle",
        fitting_font(name, std::min(spacing, 2 * left) - letter_width) + " font-weight=\"bold\"");
  };
  const auto add_label = [&](std::size_t axis, double y, const std::string& label, double room) {
    axes += svg_text(x_of(axis) + 6, y + 5, label, "start", fitting_font(label, room));
  };
  for (std::size_t option = 0; option < options.size(); ++option) {
    add_axis(option, options[option]);
    const std::vector<std::string> values = values_of(lines, option);
    // Values stand at equal distances, a single one in the middle.
    const auto y_at = [&](std::size_t i) {
      return y_of(values.size() == 1
                      ? 0.5
                      : static_cast<double>(i) / static_cast<double>(values.size() - 1));
    };
    const std::size_t stride = values.size() / 16 + 1;  // labels must not touch
    for (std::size_t i = 0; i < values.size(); i += stride)
      add_label(option, y_at(i), values[i], spacing - 2 * letter_width);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto place = std::ranges::find(values, lines[i].values[option]) - values.begin();
      points[i] +=
          fmt::format("{:.1f},{:.1f} ", x_of(option), y_at(static_cast<std::size_t>(place)));
    }
  }
  const Scale scale = scale_of(Axis::linear, {&metrics}, -1e307);
  add_axis(options.size(), metric);
  const std::vector<std::string> labels = tick_labels(scale);
  for (std::size_t i = 0; i < labels.size(); ++i)
    add_label(options.size(), y_of(scale.share(scale.ticks[i])), labels[i], right - letter_width);
  std::string body;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool best = i + 1 == lines.size();
    const double strength = static_cast<double>(i + 1) / static_cast<double>(lines.size());
    body += fmt::format(
        "<polyline class=\"l{}\" fill=\"none\" stroke-width=\"{}\" stroke-opacity=\"{:.2f}\" "
        "points=\"{}{:.1f},{:.1f}\"/>\n",
        best ? 1 : 0, best ? 3 : 1.5, best ? 1 : 0.2 + 0.6 * strength, points[i],
        x_of(options.size()), y_of(scale.share(metrics[i])));
  }
  return svg_document(width, top + height + 24, "options against " + metric, body + axes);
}

std::string parallel_of(const SweepResult& sweep, const std::vector<std::string>& options) {
  std::set<std::int64_t> seeds;
  for (const SweepPoint& point : sweep.points)
    for (const SweepRun& run : point.runs) seeds.insert(run.seed);
  const std::size_t axes = options.size() + (seeds.size() > 1 ? 1 : 0);
  if (axes == 0 || axes > max_axes) return "";
  std::vector<std::string> names;
  for (const std::string& option : options) names.push_back(option_name(option));
  if (seeds.size() > 1) names.emplace_back("seed");
  std::vector<ParallelLine> lines;
  for (const SweepPoint& point : sweep.points)
    for (const SweepRun& run : point.runs) {
      if (!std::isfinite(run.value)) continue;
      lines.push_back({values_of(point, options), run.value});
      if (seeds.size() > 1) lines.back().values.push_back(std::to_string(run.seed));
    }
  return "<p class=\"soft\">Each line is a run. The better it is, the stronger its line; the best "
         "one is orange.</p>\n<div class=\"wide\"><figure class=\"parallel\">" +
         parallel_svg(names, sweep.metric, std::move(lines)) + "</figure></div>\n";
}

}  // namespace

std::string html_sweep(const SweepResult& sweep) {
  if (sweep.points.empty()) return "";
  const std::vector<std::string> options = options_of(sweep);
  return table_of(sweep, options) + parallel_of(sweep, options);
}

}  // namespace nystrom
