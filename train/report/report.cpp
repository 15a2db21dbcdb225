#include "train/report/report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/config_io.h"
#include "train/report/report_html.h"

namespace nystrom {
namespace {

constexpr std::size_t max_points = 2000, max_evaluations = 1000, long_table = 12;
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr const char* validation = "validation_";
constexpr const char* mean = "mean_";  // over the steps since the last record

/// How a metric is shown: its title, what stands at its axis, and what its values are divided by.
struct MetricView {
  std::string title, unit;
  double divisor = 1;
};

MetricView view_of(const std::string& metric) {
  if (metric == "loss") return {"Loss", "nats"};
  if (metric == "learning_rate") return {"Learning rate", ""};
  if (metric == "grad_norm") return {"Norm of the gradient", "before clipping"};
  if (metric == "tokens_per_second") return {"Throughput", "tokens a second"};
  if (metric == "peak_memory_bytes") return {"Peak memory", "GB", 1e9};
  std::string title = metric;
  std::replace(title.begin(), title.end(), '_', ' ');
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return {title, "", 1};
}

/// The metric that a name with one of these in front is about.
std::string base_of(const std::string& metric) {
  for (const std::string prefix : {validation, mean}) {
    if (metric.starts_with(prefix)) return metric.substr(prefix.size());
  }
  return metric;
}

/// First what people look at first, then the others by name.
std::vector<std::string> ordered(const std::set<std::string>& metrics) {
  std::vector<std::string> order;
  const auto of_training = {"learning_rate", "grad_norm", "loss_scale", "tokens_per_second",
                            "peak_memory_bytes"};
  const auto special = [&](const std::string& name) {
    return base_of(name) == "loss" ||
           std::find(of_training.begin(), of_training.end(), name) != of_training.end();
  };
  for (const char* name : {"loss", "mean_loss", "validation_loss"}) {
    if (metrics.contains(name)) order.emplace_back(name);
  }
  for (const std::string& name : metrics) {
    if (!name.empty() && !special(name)) order.push_back(name);
  }
  for (const char* name : of_training) {
    if (metrics.contains(name)) order.emplace_back(name);
  }
  return order;
}

ChartSeries series_of(const MetricCurve& curve, const std::string& name, double divisor) {
  ChartSeries series{printable(name, 60), curve.steps, curve.values};
  for (double& value : series.y) value /= divisor;
  return thinned(series, max_points);
}

Chart chart_of(const std::string& title, const MetricView& view) {
  Chart chart;
  chart.title = printable(title, 60);
  chart.x_label = "step";
  chart.y_label = view.unit;
  chart.width = 480;
  chart.plot_height = 260;
  return chart;
}

/// A word with digits replaced by "#": metrics of layers share a picture.
std::string family_of(const std::string& metric) {
  std::string family;
  for (const char c : metric) {
    if (c < '0' || c > '9') {
      family += c;
    } else if (family.empty() || family.back() != '#') {
      family += '#';
    }
  }
  return family;
}

/// A picture a metric, training and validation together; metrics that differ in a number alone
/// share one.
std::string curves_of(const RunRecord& run) {
  std::set<std::string> bases;
  for (const auto& [name, curve] : run.curves) bases.insert(base_of(name));
  std::vector<std::pair<std::string, Chart>> charts;
  for (const std::string& base : ordered(bases)) {
    const std::string family = family_of(base);
    auto place = std::find_if(charts.begin(), charts.end(),
                              [&](const auto& each) { return each.first == family; });
    const MetricView view = view_of(base);
    if (place == charts.end())
      place = charts.insert(
          place, {family, chart_of(family == base ? view.title : view_of(family).title, view)});
    const bool alone = family == base;
    const auto add = [&](const std::string& metric, const char* what) {
      const auto found = run.curves.find(metric);
      if (found == run.curves.end()) return;
      place->second.series.push_back(series_of(found->second, alone ? what : metric, view.divisor));
    };
    add(base, "training");
    add(mean + base, "training, mean");
    add(validation + base, "validation");
  }
  std::string html = "<div class=\"charts\">\n";
  for (const auto& [family, chart] : charts) html += html_chart(chart);
  return html + "</div>\n";
}

/// A picture a metric, with a line a run.
std::string compared_curves(const std::vector<RunRecord>& runs) {
  std::set<std::string> metrics;
  for (const RunRecord& run : runs) {
    for (const auto& [name, curve] : run.curves) metrics.insert(name);
  }
  std::string html = "<div class=\"charts\">\n";
  for (const std::string& metric : ordered(metrics)) {
    const char* kind = metric.starts_with(validation) ? ", validation"
                       : metric.starts_with(mean)     ? ", mean"
                                                      : "";
    const MetricView view = view_of(base_of(metric));
    Chart chart = chart_of(view.title + kind, view);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto found = runs[i].curves.find(metric);
      if (found == runs[i].curves.end()) continue;
      chart.series.push_back(series_of(found->second, runs[i].name, view.divisor));
      chart.series.back().colour = static_cast<int>(i);  // the same in every picture
      chart.series.back().dashed = i >= 8;
    }
    html += html_chart(chart);
  }
  return html + "</div>\n";
}

double median_of(const RunRecord& run, const char* metric) {
  const auto found = run.curves.find(metric);
  if (found == run.curves.end()) return unknown;
  std::vector<double> values;
  for (const double value : found->second.values) {
    if (std::isfinite(value)) values.push_back(value);
  }
  return values.empty() ? unknown : summarise(values).median;
}

/// Tokens a second: of older runs, which recorded no means, by single steps.
double speed_of(const RunRecord& run) {
  const double speed = median_of(run, "mean_tokens_per_second");
  return std::isfinite(speed) ? speed : median_of(run, "tokens_per_second");
}

double largest_of(const RunRecord& run, const char* metric) {
  const auto found = run.curves.find(metric);
  double largest = unknown;
  if (found == run.curves.end()) return largest;
  for (const double value : found->second.values) largest = std::fmax(largest, value);
  return largest;
}

std::string kind_of(const RunRecord& run) {
  if (!has_task(run.config)) return "masked language model";
  const auto kind = resolve_task(run.config.task).kind;
  return fmt::format("fine-tuning: {}", kind ? enum_name(*kind) : "task");
}

std::string state_of(const RunRecord& run) {
  const std::string steps = run.total_steps
                                ? fmt::format("step {} of {}", run.steps, *run.total_steps)
                                : fmt::format("step {}", run.steps);
  if (run.stopped_early) return steps + ", stopped early";
  if (run.total_steps && run.steps >= *run.total_steps) return steps + ", finished";
  return steps + ", still going or stopped";
}

std::string facts_of(const RunRecord& run) {
  const ModelConfig& model = run.config.model;
  std::vector<std::pair<std::string, std::string>> facts = {{"Trains", kind_of(run)},
                                                            {"State", state_of(run)}};
  if (const EvaluationRecord* best = run.best()) {
    facts.emplace_back("Best evaluation",
                       fmt::format("{} {} at step {}", run.metric_name(),
                                   short_number(best->metrics.at(run.metric_name())), best->step));
  } else {
    facts.emplace_back("Best evaluation", "none yet");
  }
  facts.emplace_back("Model", fmt::format("{} layers of {}, {} attention", model.num_hidden_layers,
                                          model.hidden_size, enum_name(model.attention.kind)));
  if (run.parameters) facts.emplace_back("Parameters", fmt::format("{}", *run.parameters));
  facts.emplace_back("Sequence length", fmt::format("{}", run.config.data.sequence_length));
  if (const double speed = speed_of(run); std::isfinite(speed))
    facts.emplace_back("Tokens a second", fmt::format("{:.0f} (median)", speed));
  if (const double memory = largest_of(run, "peak_memory_bytes"); std::isfinite(memory))
    facts.emplace_back("Peak memory", fmt::format("{:.2f} GB", memory / 1e9));
  std::string html = "<div class=\"facts\">\n";
  for (const auto& [name, value] : facts)
    html += fmt::format("<div><span>{}</span>{}</div>\n", html_text(name), html_text(value));
  return html + "</div>\n";
}

std::string section(const char* title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", html_text(title), content);
}

std::string notes_of(const RunRecord& run, const std::string& prefix) {
  std::vector<std::string> notes;
  for (const auto* list : {&run.notes, &run.warnings}) {
    for (const std::string& line : *list) notes.push_back(prefix + line);
  }
  return notes.empty() ? "" : "<div class=\"notes\">" + html_list(notes) + "</div>\n";
}

std::string evaluations_of(const RunRecord& run) {
  if (run.evaluations.empty()) return "<p class=\"soft\">No evaluation yet.</p>\n";
  std::set<std::string> metrics;
  for (const auto& evaluation : run.evaluations) {
    for (const auto& [name, value] : evaluation.metrics) metrics.insert(name);
  }
  std::vector<std::string> columns = {"step"};
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  std::vector<std::vector<Cell>> rows;
  int best = -1;
  const std::size_t first =
      run.evaluations.size() > max_evaluations ? run.evaluations.size() - max_evaluations : 0;
  for (std::size_t i = first; i < run.evaluations.size(); ++i) {
    const EvaluationRecord& evaluation = run.evaluations[i];
    if (&evaluation == run.best()) best = static_cast<int>(rows.size());
    rows.push_back({evaluation.step});
    for (const std::string& metric : metrics) {
      const auto found = evaluation.metrics.find(metric);
      rows.back().emplace_back(found == evaluation.metrics.end() ? unknown : found->second);
    }
  }
  const std::string table = html_table(columns, rows, best);
  if (rows.size() <= long_table) return table;
  return html_folded(first > 0
                         ? fmt::format("the last {} of {}", rows.size(), run.evaluations.size())
                         : fmt::format("{}", rows.size()),
                     table);
}

/// The argmax words of one mask: “sea” 31 %, “ship” 4.2 %.
std::string words_of(const std::vector<MaskFill>& fills) {
  std::vector<std::string> words;
  for (const MaskFill& fill : fills)
    words.push_back(fmt::format("“{}” {:.2g} %", fill.token_str, 100 * fill.score));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string samples_of(const MaskSamples& samples, const RunRecord& run) {
  if (!samples.note.empty()) return "<p class=\"soft\">" + html_text(samples.note) + "</p>\n";
  std::string html;
  for (std::size_t t = 0; t < samples.texts.size(); ++t) {
    html += "<h3>" + html_text(samples.texts[t]) + "</h3>\n";
    std::vector<std::vector<Cell>> rows;
    int best = -1;
    for (const FilledMasks& filled : samples.steps) {
      if (run.best() && run.best()->step == filled.step) best = static_cast<int>(rows.size());
      std::vector<std::string> masks;
      for (const auto& fills : filled.texts.at(t)) masks.push_back(words_of(fills));
      rows.push_back({filled.step, fmt::format("{}", fmt::join(masks, " | "))});
    }
    html += html_table({"step", "argmax"}, rows, best);
  }
  return html;
}

using Options = std::vector<std::pair<std::string, std::string>>;

std::string value_in(const Options& options, const std::string& key) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.first == key; });
  return found == options.end() ? "–" : found->second;
}

std::string settings_of(const RunRecord& run) {
  RunConfig defaults;
  if (has_task(run.config)) {
    defaults.task.kind = resolve_task(run.config.task).kind;  // so that it has the section task
    set_finetuning_defaults(defaults);
  }
  const Options options = option_values(run.config), before = option_values(defaults);
  std::vector<std::vector<Cell>> changed, all;
  for (const auto& [key, value] : options) {
    const std::string old = value_in(before, key);
    all.push_back({key, value});
    if (old != value) changed.push_back({key, value, old});
  }
  const std::string table = changed.empty() ? "<p>All settings have their defaults.</p>\n"
                                            : html_table({"option", "value", "default"}, changed);
  return table + html_folded(fmt::format("all {} settings", all.size()),
                             html_table({"option", "value"}, all));
}

std::string study_of(const StudyFindings& study) {
  std::string html = study.verdict.empty() ? "" : html_list(study.verdict);
  if (study.pictures.empty()) return html;
  html += "<div class=\"charts\">\n";
  for (const std::string& picture : study.pictures)
    html += html_image(picture, "picture of the approximation study");
  return html + "</div>\n";
}

std::string log_of(const RunRecord& run) {
  if (run.log_end.empty()) return "";
  std::string text;
  for (const std::string& line : run.log_end) text += html_text(line) + "\n";
  return html_folded(fmt::format("the last {} lines", run.log_end.size()),
                     "<pre>" + text + "</pre>\n");
}

/// Runs under each other: how far they came, and what they reached.
std::string reached(const std::vector<RunRecord>& runs) {
  std::set<std::string> metrics;
  for (const RunRecord& run : runs) {
    if (!run.best()) continue;
    for (const auto& [name, value] : run.best()->metrics) metrics.insert(name);
  }
  std::vector<std::string> columns = {"run", "state", "best at step"};
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  columns.insert(columns.end(), {"tokens/s (median)", "peak memory, GB"});
  std::vector<std::vector<Cell>> rows;
  int best = -1;
  double best_value = 0;
  bool comparable = true;
  for (const RunRecord& run : runs) {
    const EvaluationRecord* top = run.best();
    rows.push_back({run.name, state_of(run), top ? Cell(top->step) : Cell(unknown)});
    for (const std::string& metric : metrics) {
      rows.back().emplace_back(top && top->metrics.contains(metric) ? top->metrics.at(metric)
                                                                    : unknown);
    }
    rows.back().emplace_back(speed_of(run));
    rows.back().emplace_back(largest_of(run, "peak_memory_bytes") / 1e9);
    comparable = comparable && run.metric_name() == runs[0].metric_name();
    if (!top) continue;
    const double value = top->metrics.at(run.metric_name());
    if (best < 0 || (run.higher_is_better() ? value > best_value : value < best_value)) {
      best = static_cast<int>(rows.size()) - 1;
      best_value = value;
    }
  }
  return html_table(columns, rows, comparable ? best : -1);
}

std::string differences(const std::vector<RunRecord>& runs) {
  std::vector<Options> options;
  std::vector<std::string> keys, columns = {"option"};
  for (const RunRecord& run : runs) {
    options.push_back(option_values(run.config));
    columns.push_back(run.name);
    for (const auto& [key, value] : options.back()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  std::vector<std::vector<Cell>> rows;
  for (const std::string& key : keys) {
    if (key == "run_dir") continue;
    std::vector<Cell> row = {key};
    bool differs = false;
    for (const Options& of_run : options) {
      row.emplace_back(value_in(of_run, key));
      differs = differs || row.back() != row[1];
    }
    if (differs) rows.push_back(row);
  }
  return rows.empty() ? "<p>The runs have the same settings.</p>\n" : html_table(columns, rows);
}

}  // namespace

std::string run_report(const RunRecord& run, const MaskSamples& samples,
                       const StudyFindings& study) {
  const std::string title = fmt::format("Run {}", run.name);
  std::string body = "<h1>" + html_text(title) + "</h1>\n" + facts_of(run) + notes_of(run, "");
  if (!run.curves.empty()) body += section("Curves", curves_of(run));
  body += section("Evaluations", evaluations_of(run));
  if (!samples.texts.empty())
    body += section("Masks as the model fills them", samples_of(samples, run));
  body += section("Quality of the approximation", study_of(study));
  body += section("Settings that differ from the defaults", settings_of(run));
  body += section("Log", log_of(run));
  return html_page(title, body);
}

std::string comparison_report(const std::vector<RunRecord>& runs, const StudyTable& sweep) {
  const std::string title = fmt::format("{} runs compared", runs.size());
  std::string body = "<h1>" + html_text(title) + "</h1>\n";
  for (const RunRecord& run : runs) body += notes_of(run, run.name + ": ");
  if (!sweep.columns.empty()) body += section("Sweep", html_table(sweep.columns, sweep.rows));
  body += section("Best evaluations", reached(runs));
  body += section("Curves", compared_curves(runs));
  body += section("Settings that differ", differences(runs));
  return html_page(title, body);
}

}  // namespace nystrom
