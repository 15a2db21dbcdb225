#include "train/report/report_html.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/loop/metrics.h"

namespace nystrom {
namespace {

constexpr std::size_t max_points = 2000;
constexpr std::string_view mean_prefix = "mean_";  // mean over the steps since the last record
constexpr std::string_view layer = "layer_#_";

/// The display of a metric: its title, the unit of its axis, and the divisor of its values.
struct MetricView {
  std::string title, unit;
  double divisor = 1;
};

MetricView view_of(const std::string& metric) {
  static const std::map<std::string, MetricView> known = {
      {"loss", {"Loss", ""}},
      {"accuracy", {"Accuracy", "share of right answers"}},
      {"learning_rate", {"Learning rate", ""}},
      {"grad_norm", {"Norm of the gradient", "before clipping"}},
      {"tokens_per_second", {"Throughput", "tokens a second"}},
      {"peak_memory_bytes", {"Peak memory", "GB", 1e9}},
      {"reserved_memory_bytes", {"Reserved memory", "GB", 1e9}},
      {"communication_seconds", {"Communication", "seconds"}},
      {"layer_#_attention_error", {"Difference from exact attention", "share of its norm"}},
      {"layer_#_attention_entropy", {"Entropy of exact attention", "nats"}},
      {"layer_#_inverse_residual", {"Residual of the inverse", "share of the matrix's norm"}},
      {"layer_#_inverse_gradient", {"Gradient through the inverse", "norm"}}};
  if (const auto found = known.find(metric); found != known.end()) return found->second;
  std::string title = metric;
  std::replace(title.begin(), title.end(), '_', ' ');
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return {title, "", 1};
}

/// The metric without its prefix.
std::string base_of(const std::string& metric) {
  for (const std::string_view prefix : {validation_prefix, mean_prefix})
    if (metric.starts_with(prefix)) return metric.substr(prefix.size());
  return metric;
}

/// Important metrics first, then the others by name.
std::vector<std::string> ordered(const std::set<std::string>& metrics,
                                 const std::string& decisive) {
  const std::vector<std::string> of_training = {"learning_rate",     "grad_norm",
                                                "loss_scale",        "tokens_per_second",
                                                "peak_memory_bytes", "reserved_memory_bytes"};
  const auto rank = [&](const std::string& name) {
    const bool held_out = name.starts_with(validation_prefix);
    const auto last = std::find(of_training.begin(), of_training.end(), base_of(name));
    if (last != of_training.end()) return 100 + static_cast<int>(last - of_training.begin());
    const std::string base = name == decisive ? name : base_of(name);  // mean_average_precision
    if (base == decisive) return held_out ? 0 : 10;
    if (base == "loss") return held_out ? 1 : 11;
    return held_out ? 2 : 12;
  };
  std::vector<std::string> order;
  for (const std::string& name : metrics)
    if (!name.empty()) order.push_back(name);
  std::sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return ::strverscmp(a.c_str(), b.c_str()) < 0;  // "layer_2" before "layer_10"
  });
  return order;
}

/// Adds the curve of a metric to the chart, if the run has it.
void add_curve(Chart& chart, const RunHistory& run, const std::string& metric,
               const std::string& name, double divisor, int colour = -1) {
  const auto found = run.curves.find(metric);
  if (found == run.curves.end()) return;
  ChartSeries series = found->second;
  series.name = printable(name, 60);
  series.colour = colour;
  for (double& value : series.y) value /= divisor;
  chart.series.push_back(thinned(series, max_points));
}

/// The name of one metric of a family: "layer 3", or all of its words.
std::string member_name(const std::string& metric, const std::string& family) {
  std::string name = metric;
  if (family.starts_with(layer)) name.erase(name.find('_', layer.size() - 2));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void add_baseline(Chart& chart, const RunHistory& run) {
  if (run.baseline)
    chart.levels = {
        {fmt::format("{}: {}", run.baseline_name(), short_number(*run.baseline)), *run.baseline}};
}

/// The chart of one metric that is no member of a family.
Chart single_chart(const RunHistory& run, const std::string& base) {
  const MetricView view = view_of(base);
  Chart chart = small_chart(view.title, "step", view.unit);
  const bool has_means = run.curves.contains(std::string(mean_prefix) + base);
  const auto add = [&](const std::string& metric, const char* name, int colour) {
    add_curve(chart, run, metric, name, view.divisor, colour);
  };
  add(base, "training", 0);
  if (has_means && !chart.series.empty()) chart.series.back().faint = true;
  add(std::string(mean_prefix) + base, "training, mean", 0);
  add(std::string(validation_prefix) + base, "validation", 1);
  if (base == run.metric_name()) add_baseline(chart, run);
  return chart;
}

std::string grid_of(const std::vector<Chart>& charts) {
  if (charts.empty()) return "";
  std::string html = "<div class=\"charts\">\n";
  for (const Chart& chart : charts) html += html_chart(chart);
  return html + "</div>\n";
}

std::set<std::string> bases_of(const RunHistory& run) {
  std::set<std::string> bases;
  for (const auto& [name, curve] : run.curves) bases.insert(base_of(name));
  return bases;
}

bool is_held_out(const RunHistory& run, const std::string& base) {
  return run.curves.contains(std::string(validation_prefix) + base);
}

/// Charts of families, in the order of their first members. `of_layers` selects families of layers
/// or all others.
std::vector<Chart> family_charts(const RunHistory& run, bool of_layers) {
  std::vector<std::pair<std::string, Chart>> charts;
  for (const std::string& base : ordered(bases_of(run), run.metric_name())) {
    const std::string family = without_numbers(base);
    if (family.starts_with(layer) != of_layers || is_held_out(run, base)) continue;
    if (family == base) {
      charts.emplace_back(family, single_chart(run, base));
      continue;
    }
    auto place = std::ranges::find(charts, family, &std::pair<std::string, Chart>::first);
    const MetricView view = view_of(family);
    if (place == charts.end())
      place = charts.insert(place, {family, small_chart(view.title, "step", view.unit)});
    for (const std::string& metric : {base, std::string(mean_prefix) + base})
      add_curve(place->second, run, metric, member_name(metric, family), view.divisor);
  }
  std::vector<Chart> result;
  for (const auto& [family, chart] : charts) result.push_back(chart);
  return result;
}

}  // namespace

std::string validation_curves(const RunHistory& run) {
  std::vector<Chart> charts;
  for (const std::string& base : ordered(bases_of(run), run.metric_name()))
    if (is_held_out(run, base)) charts.push_back(single_chart(run, base));
  return grid_of(charts);
}

std::string training_curves(const RunHistory& run) { return grid_of(family_charts(run, false)); }

std::string layer_curves(const RunHistory& run) {
  const std::vector<Chart> charts = family_charts(run, true);
  if (charts.empty()) return "";
  std::size_t layers = 0;
  for (const Chart& chart : charts) layers = std::max(layers, chart.series.size());
  return html_folded(fmt::format("{} charts of {} layers", charts.size(), layers), grid_of(charts));
}

std::string compared_curves(const std::vector<RunHistory>& runs) {
  std::set<std::string> metrics;
  for (const RunHistory& run : runs)
    for (const auto& [name, curve] : run.curves) metrics.insert(name);
  const std::string decisive = runs.empty() ? "loss" : runs[0].metric_name();
  const bool same_baseline = std::all_of(runs.begin(), runs.end(), [&](const RunHistory& run) {
    return run.metric_name() == decisive && run.baseline == runs[0].baseline;
  });
  std::vector<Chart> charts, of_layers;
  for (const std::string& metric : ordered(metrics, decisive)) {
    const char* kind = metric.starts_with(validation_prefix) ? ", validation"
                       : metric.starts_with(mean_prefix)     ? ", mean"
                                                             : "";
    const std::string base = base_of(metric), family = without_numbers(base);
    const bool of_layer = family.starts_with(layer);
    const MetricView view = view_of(of_layer ? family : base);
    Chart chart = small_chart(view.title + (of_layer ? ", " + member_name(base, family) : kind),
                              "step", view.unit);
    for (std::size_t i = 0; i < runs.size(); ++i)  // each with the same colour in every chart
      add_curve(chart, runs[i], metric, runs[i].name, view.divisor, static_cast<int>(i));
    if (same_baseline && metric == std::string(validation_prefix) + decisive)
      add_baseline(chart, runs[0]);
    (of_layer ? of_layers : charts).push_back(chart);
  }
  const std::string folded =
      of_layers.empty()
          ? ""
          : html_folded(fmt::format("{} charts of layers", of_layers.size()), grid_of(of_layers));
  return grid_of(charts) + folded;
}

}  // namespace nystrom
