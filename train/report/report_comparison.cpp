// The page that compares several runs.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/check.h"
#include "train/config/config_io.h"
#include "train/report/report_html.h"
#include "train/report/report_page.h"
#include "train/report/report_parts.h"

namespace nystrom {
namespace {

/// A table of runs with their states and final metrics.
std::string reached(const std::vector<RunHistory>& runs) {
  std::set<std::string> metrics;
  for (const RunHistory& run : runs) {
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
  for (const RunHistory& run : runs) {
    const EvaluationRecord* top = run.best();
    rows.push_back({run.name, state_of(run), top ? Cell(top->step) : Cell(NAN)});
    for (const std::string& metric : metrics) {
      rows.back().emplace_back(top && top->metrics.contains(metric) ? top->metrics.at(metric)
                                                                    : NAN);
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

std::string differences(const std::vector<RunHistory>& runs) {
  std::vector<std::vector<std::pair<std::string, std::string>>> options;
  std::vector<std::string> keys, columns = {"option"};
  for (const RunHistory& run : runs) {
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
    for (const auto& of_run : options) {
      row.emplace_back(option_in(of_run, key));
      differs = differs || row.back() != row[1];
    }
    if (differs) rows.push_back(row);
  }
  return rows.empty() ? "<p>The runs have the same settings.</p>\n" : html_table(columns, rows);
}

}  // namespace

std::string comparison_page(const std::vector<RunHistory>& runs, const SweepResult& sweep) {
  const std::string title = fmt::format("{} runs compared", runs.size());
  std::string body = "<h1>" + html_text(title) + "</h1>\n" + html_notes(runs);
  body += html_section("Sweep", html_sweep(sweep));
  body += html_section("Best evaluations", reached(runs));
  body += html_section("Curves", compared_curves(runs));
  body += html_section("Settings that differ", differences(runs));
  return html_page(title, body);
}

}  // namespace nystrom
