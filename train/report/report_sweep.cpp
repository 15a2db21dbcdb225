#include "train/report/report_sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/check.h"
#include "train/report/parallel_chart.h"
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
    double low = std::numeric_limits<double>::quiet_NaN(), high = low;
    for (const SweepRun& run : point.runs) {
      low = std::fmin(low, run.value);
      high = std::fmax(high, run.value);
    }
    // The deviation of a single run is unknown.
    const double deviation =
        point.runs.size() < 2 ? std::numeric_limits<double>::quiet_NaN() : point.deviation();
    row.insert(row.end(),
               {static_cast<std::int64_t>(point.runs.size()), point.mean(), deviation, low, high});
    rows.push_back(std::move(row));
  }
  const SweepPoint& best = sweep.best();
  const int mark = std::isnan(best.mean()) ? -1 : static_cast<int>(&best - sweep.points.data());
  return html_table(columns, rows, mark);
}

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
         render_parallel_svg(chart) + "</figure></div>\n";
}

}  // namespace

std::string html_sweep(const SweepResult& sweep) {
  if (sweep.points.empty()) return "";
  const std::vector<std::string> options = options_of(sweep);
  return table_of(sweep, options) + parallel_of(sweep, options);
}

}  // namespace nystrom
