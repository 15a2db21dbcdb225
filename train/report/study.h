// Results of a study: tables, charts and sentences, and their output.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "train/report/chart.h"

namespace nystrom {

using Cell = std::variant<std::string, std::int64_t, double>;

/// Rows under named columns. `name` consists of lower-case letters and underscores, and is part of
/// file names.
struct StudyTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows = {};
};

/// The results of a study.
struct Study {
  std::string name;
  std::vector<std::pair<std::string, Cell>> settings;
  std::vector<StudyTable> tables;
  std::vector<std::pair<std::string, Chart>> charts;  ///< by name, which is part of file names
  std::string text;                                   ///< text that is printed above the verdict
  std::vector<std::string> verdict;                   ///< sentences
};

/// The table with aligned columns and numbers with four digits; "-" for missing ones.
std::string aligned_text(const StudyTable& table);
/// The study as a JSON object with name, settings, verdict, and a list of objects for each table.
/// Non-finite numbers are null.
std::string json_text(const Study& study);

/// Creates `folder` if absent. Throws an InputError when write_study cannot write the study `name`
/// into it, or would replace files that belong to no such study, before hours of measuring.
void make_study_folder(const std::filesystem::path& folder, const std::string& name);

/// Writes NAME.json, and NAME-TABLE.csv and NAME-CHART.svg for each table and chart, into `folder`,
/// and replaces files of these names. Throws an InputError on failure.
void write_study(const Study& study, const std::filesystem::path& folder);

/// Called with the number of finished parts of the work, and their total.
using StudyProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// ---- Statistics of several trials --------------------------------------------------------------

/// Mean, median, and the 10th and 90th percentile (linear between ranks) of at least one value.
struct Summary {
  double mean, median, low, high;
};
/// The statistics of `values`.
Summary summarise(std::vector<double> values);

/// The slope of log y over log x by least squares, which is the exponent of a power law. NaN for
/// fewer than two points.
double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace nystrom
