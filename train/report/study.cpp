#include "train/report/study.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Cell& cell, bool all_digits) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
  const double value = std::get<double>(cell);
  if (all_digits) return fmt::format("{:.9g}", value);
  return std::isnan(value) ? "-" : short_number(value);
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

Json json_of(const Cell& cell) {
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

/// The table as CSV with a header (RFC 4180) and numbers with nine digits.
std::string csv_text(const StudyTable& table) {
  std::string text = fmt::format("{}\n", fmt::join(table.columns, ","));
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(quoted(shown(cell, true)));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

/// Whether `file` is the NAME.json of a study `name`.
bool is_study(const std::filesystem::path& file, const std::string& name) {
  try {
    return read_json_file(file).at("study") == name;
  } catch (const std::exception&) {  // damaged, or of another kind
    return false;
  }
}

/// Whether write_study may write a file of this name for the study `name`.
bool is_study_file(const std::filesystem::path& file, const std::string& name) {
  const std::string stem = file.stem().string(), extension = file.extension().string();
  return extension == ".json"
             ? stem == name
             : (extension == ".csv" || extension == ".svg") && stem.starts_with(name + "-");
}

}  // namespace

std::string aligned_text(const StudyTable& table) {
  std::vector<std::vector<std::string>> lines = {table.columns};
  for (const auto& row : table.rows) {
    lines.emplace_back();
    for (const Cell& cell : row) lines.back().push_back(shown(cell, false));
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines)
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], line.at(i).size());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool words =
          !table.rows.empty() && std::holds_alternative<std::string>(table.rows[0][i]);
      const std::string gap(widths[i] - line[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (words ? line[i] + gap : gap + line[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string json_text(const Study& study) {
  Json root = {{"study", study.name}, {"settings", Json::object()}, {"verdict", study.verdict}};
  for (const auto& [key, value] : study.settings) root["settings"][key] = json_of(value);
  for (const StudyTable& table : study.tables) {
    Json rows = Json::array();
    for (const auto& row : table.rows) {
      Json object = Json::object();
      for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i]] = json_of(row[i]);
      rows.push_back(object);
    }
    root[table.name] = rows;
  }
  return root.dump(1) + "\n";
}

void make_study_folder(const std::filesystem::path& folder, const std::string& name) {
  make_folders(folder);
  const bool writable = ::access(folder.c_str(), W_OK | X_OK) == 0;  // before errno is read
  require_input(writable, "{}: cannot write there: {}; name another --output",
                printable_path(folder), std::strerror(errno));
  const bool earlier = is_study(folder / (name + ".json"), name);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (!is_study_file(entry.path(), name)) continue;
    require_no_link(entry.path());
    require_input(earlier,
                  "{}: would be replaced, and belongs to no study of nystrom approximation; name "
                  "another --output",
                  printable_path(entry.path()));
  }
}

void write_study(const Study& study, const std::filesystem::path& folder) {
  const auto place = [&](const std::string& part, const char* extension) {
    return folder / (study.name + (part.empty() ? "" : "-" + part) + extension);
  };
  write_text_file(place("", ".json"), json_text(study));
  for (const StudyTable& table : study.tables)
    write_text_file(place(table.name, ".csv"), csv_text(table));
  for (const auto& [part, chart] : study.charts)
    write_text_file(place(part, ".svg"), render_svg(chart));
}

Summary summarise(std::vector<double> values) {
  require(!values.empty(), "nothing to summarise");
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double share) {
    const double rank = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    const double part = rank - static_cast<double>(below);
    return part == 0 ? values[below] : values[below] + part * (values[below + 1] - values[below]);
  };
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return {mean, quantile(0.5), quantile(0.1), quantile(0.9)};
}

double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  if (x.size() < 2) return NAN;
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = std::log(x[i]), v = std::log(y[i]);
    sx += u, sy += v, sxx += u * u, sxy += u * v;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

}  // namespace nystrom
