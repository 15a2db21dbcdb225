#include "train/report/report_html.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::size_t max_matrix = 16, max_confusions = 20, max_text = 400;

/// A cell of the matrix. Its colour says which share of its row it is: blue for right predictions,
/// orange for wrong ones.
std::string matrix_cell(std::int64_t count, std::int64_t row, bool right) {
  const double share = row > 0 ? static_cast<double>(count) / static_cast<double>(row) : 0;
  return fmt::format("<td style=\"background:rgba({},{:.2f})\">{}<small>{:.0f} %</small></td>",
                     right ? "31,95,191" : "217,95,2", 0.5 * share, count, 100 * share);
}

std::string matrix_of(const TaskFindings& findings) {
  std::string html =
      "<p class=\"soft\">A row is a right label, a column a predicted one. Below each count stands "
      "its share of the row.</p>\n<div class=\"wide\"><table "
      "class=\"matrix\">\n<thead><tr><th></th>";
  const auto name = [](const std::string& label) { return html_text(printable(label, 30)); };
  for (const std::string& label : findings.labels) html += "<th>" + name(label) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t truth = 0; truth < findings.labels.size(); ++truth) {
    const auto& counts = findings.confusions[truth];
    const std::int64_t row = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    html += "<tr><th>" + name(findings.labels[truth]) + "</th>";
    for (std::size_t i = 0; i < counts.size(); ++i) html += matrix_cell(counts[i], row, i == truth);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

/// The counts of each label, where a text has any number of them; those with the lowest F1 first.
std::string label_counts_of(const TaskFindings& findings) {
  const auto f1 = [&](std::size_t i) { return findings.label_counts[i].score().f1; };
  std::vector<std::vector<Cell>> rows;
  for (const std::size_t i : indices_by(findings.labels.size(), f1)) {
    const ClassCounts& count = findings.label_counts[i];
    rows.push_back(
        {printable(findings.labels[i], 30), count.truth, count.predicted, count.correct, f1(i)});
  }
  return html_table({"label", "texts with it", "predicted", "of them right", "F1"}, rows);
}

/// The most frequent confusions, for more labels than a matrix can show.
std::string confusions_of(const TaskFindings& findings) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t truth = 0; truth < findings.labels.size(); ++truth)
    for (std::size_t other = 0; other < findings.labels.size(); ++other) {
      const std::int64_t count = findings.confusions[truth][other];
      if (truth != other && count > 0)
        rows.push_back({findings.labels[truth], findings.labels[other], count});
    }
  const auto count_of = [](const std::vector<Cell>& row) { return std::get<std::int64_t>(row[2]); };
  std::ranges::stable_sort(rows, std::greater{}, count_of);
  rows.resize(std::min(rows.size(), max_confusions));
  if (rows.empty()) return "<p>No label is confused with another.</p>\n";
  return fmt::format("<p class=\"soft\">The most frequent confusions of {} labels.</p>\n",
                     findings.labels.size()) +
         html_table({"right", "predicted", "count"}, rows);
}

/// The line on which right predictions would stand.
ChartSeries diagonal(const char* name, double low, double high) {
  ChartSeries line{name, {low, high}, {low, high}};
  line.dashed = true;
  line.colour = 7;
  return line;
}

std::string calibration_of(const TaskFindings& findings) {
  Chart chart = small_chart("Calibration", "confidence of the prediction", "share of right ones");
  ChartSeries model{"this model", {}, {}};
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < findings.bins.size(); ++i) {
    const CalibrationBin& bin = findings.bins[i];
    if (bin.count == 0) continue;
    model.x.push_back(bin.confidence);
    model.y.push_back(bin.accuracy);
    rows.push_back({fmt::format("{:.1f} to {:.1f}", static_cast<double>(i) / 10,
                                static_cast<double>(i + 1) / 10),
                    bin.count, bin.confidence, bin.accuracy});
  }
  chart.series = {model, diagonal("perfect calibration", 0, 1)};
  chart.note = fmt::format("expected calibration error {:.3f}, over {} bins",
                           findings.calibration_error, findings.bins.size());
  return html_chart(chart) + html_folded("the bins of the calibration",
                                         html_table({"confidence", findings.unit, "mean confidence",
                                                     "share of right ones"},
                                                    rows));
}

std::string values_of(const TaskFindings& findings) {
  Chart chart = small_chart("Values", "right value", "predicted value");
  ChartSeries points{findings.unit, findings.values, findings.predicted_values};
  points.points = true;
  const auto [low, high] = std::minmax_element(findings.values.begin(), findings.values.end());
  chart.series = {points, diagonal("equal values", *low, *high)};
  return html_chart(chart);
}

std::string wrong_of(const TaskFindings& findings) {
  const bool values = !findings.values.empty();
  std::vector<std::vector<Cell>> rows;
  for (const JudgedExample& each : findings.wrong) {
    const std::string text = printable(each.text, max_text);
    if (values)
      rows.push_back({each.value, each.predicted_value, each.predicted_value - each.value, text});
    else
      rows.push_back({printable(each.truth, max_text), printable(each.predicted, max_text),
                      each.confidence, text});
  }
  if (rows.empty()) return "<p>Every prediction is right.</p>\n";
  const std::string title =
      values ? fmt::format("the {} largest errors", rows.size())
             : fmt::format("the {} wrong predictions with the highest confidence", rows.size());
  const std::vector<std::string> columns =
      values ? std::vector<std::string>{"right", "predicted", "error", "text"}
             : std::vector<std::string>{"right", "predicted", "confidence", "text"};
  return html_folded(title, html_table(columns, rows), true);
}

}  // namespace

std::string html_findings(const TaskFindings& findings) {
  std::string html;
  if (findings.judged > 0)
    html += fmt::format("<p>{} {} of the validation data.</p>\n", findings.judged,
                        html_text(findings.unit));
  for (const std::string& note : findings.notes)
    html += "<p class=\"soft\">" + html_text(note) + "</p>\n";
  if (findings.judged == 0) return html;
  html += "<div class=\"charts\">\n";
  if (!findings.labels.empty()) {
    html += !findings.label_counts.empty()
                ? "<div><h3>Labels</h3>\n" + label_counts_of(findings)
                : "<div><h3>Confusions</h3>\n" + (findings.labels.size() <= max_matrix
                                                      ? matrix_of(findings)
                                                      : confusions_of(findings));
    html += "</div>\n";
  }
  html += "<div>" + (findings.values.empty() ? calibration_of(findings) : values_of(findings)) +
          "</div>\n</div>\n";
  return html + wrong_of(findings);
}

}  // namespace nystrom
