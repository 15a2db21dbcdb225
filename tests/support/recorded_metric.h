// The recorded metrics of a run.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nystrom::testing {

/// Returns a metric from every record that has it; NaN for non-finite values.
inline std::vector<double> recorded_metric(const std::filesystem::path& run,
                                           const std::string& name) {
  std::vector<double> values;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded()) break;  // the last line is incomplete
    if (record.contains(name))
      values.push_back(record[name].is_null() ? NAN : record[name].get<double>());
  }
  return values;
}

}  // namespace nystrom::testing
