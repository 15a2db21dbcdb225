// What a study finds: tables, pictures and a few sentences, and how they get on paper.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "train/report/chart.h"

namespace nystrom {

using Cell = std::variant<std::string, std::int64_t, double>;

/// Rows under named columns. `name` is a word of lower-case letters and underscores: files are
/// called by it.
struct StudyTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows = {};
};

struct StudyChart {
  std::string name;
  Chart chart;
};

struct Study {
  std::string name;
  std::vector<std::pair<std::string, Cell>> settings;
  std::vector<StudyTable> tables;
  std::vector<StudyChart> charts;
  std::string text;                  ///< for people: what is printed above the verdict
  std::vector<std::string> verdict;  ///< sentences
};

/// A table as a CSV file with a header (RFC 4180), numbers with nine digits.
std::string csv_text(const StudyTable& table);
/// The columns of a table under each other, numbers with four digits; "-" where there is none.
std::string aligned_text(const StudyTable& table);
/// One JSON object: study, settings, verdict, and a list of objects for each table. Numbers that
/// are not finite are null.
std::string json_text(const Study& study);

/// InputError when write_study could not write into `folder`: said before hours of measuring.
/// Nothing is made.
void check_study_folder(const std::filesystem::path& folder);

/// Writes NAME.json, NAME-TABLE.csv and NAME-CHART.svg for each table and chart into `folder`,
/// which is made where it is absent; files of these names are replaced. InputError when that fails.
void write_study(const Study& study, const std::filesystem::path& folder);

// ---- Numbers of several trials ------------------------------------------------------------------

/// Mean, median, and the band between the 10th and the 90th percentile (linear between ranks).
/// Needs at least one value.
struct Summary {
  double mean, median, low, high;
};
Summary summarise(std::vector<double> values);

/// The slope of log y over log x by least squares: the exponent of a power law. NaN for fewer than
/// two points.
double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace nystrom
