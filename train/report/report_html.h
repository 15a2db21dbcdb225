// The elements and the parts of report pages, as HTML. All text is escaped.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/objectives/sweep.h"
#include "train/report/run_history.h"
#include "train/report/study.h"
#include "train/report/task_findings.h"

namespace nystrom {

/// `text` as HTML: escaped, with control bytes and invalid UTF-8 as \xNN. Very long text is cut.
std::string html_text(std::string_view text);

/// A table that scrolls if it is wider than the page; row `best` is highlighted.
std::string html_table(const std::vector<std::string>& columns,
                       const std::vector<std::vector<Cell>>& rows, int best = -1);

/// A collapsible section, expanded in print, or from the beginning if `open`.
std::string html_folded(std::string_view summary, const std::string& content, bool open = false);

/// A list of texts.
std::string html_list(const std::vector<std::string>& texts);

/// A chart without lines, in the size that pages have beside others.
Chart small_chart(const std::string& title, const std::string& x_label, const std::string& y_label);
/// A chart as an inline SVG.
std::string html_chart(const Chart& chart);
/// An SVG from another source as an image, which can neither run scripts nor load files.
std::string html_image(std::string_view svg, std::string_view name);

/// The complete HTML document around `body`.
std::string html_page(std::string_view title, const std::string& body);

/// Throws an InputError if there is a link at `path`, or a file that is no page of a report: it
/// would be replaced.
void check_page_place(const std::filesystem::path& path);

// ---- Charts of metrics (report_curves.cpp) ------------------------------------------------------

/// Charts of the metrics that evaluations on held-out data measured, the decisive one first and the
/// loss second. They have the baseline, and the same metrics of training. Empty without any.
std::string validation_curves(const RunHistory& run);
/// Charts of the other metrics. Those that differ only in a number share one. Empty without any.
std::string training_curves(const RunHistory& run);
/// Charts of the metrics of layers, collapsed. Empty without any.
std::string layer_curves(const RunHistory& run);

/// One chart for each metric, with a line for each run; the metrics of evaluations come first.
std::string compared_curves(const std::vector<RunHistory>& runs);

// ---- Predictions and sweeps (report_task.cpp, report_sweep.cpp) ---------------------------------

/// The confusions, the calibration and the most wrong predictions. Empty without findings.
std::string html_findings(const TaskFindings& findings);

/// A table of the points with means and deviations, and the options of every run against the
/// metric. Empty without points.
std::string html_sweep(const SweepResult& sweep);

}  // namespace nystrom
