// What a report reads beside what runs left: a study's files, a sweep's summary.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/report/report.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_file_bytes = std::size_t{16} << 20;

}  // namespace

StudyFindings read_study(const fs::path& run_dir) {
  StudyFindings findings;
  const fs::path folder = run_dir / "approximation";
  if (!fs::is_directory(folder)) return findings;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (file.extension() == ".svg")
      findings.pictures.push_back(read_text_file(file, max_file_bytes));
    if (file.extension() != ".json") continue;
    const nlohmann::json study = read_json_file(file, max_file_bytes);
    try {
      for (const auto& sentence : study.at("verdict"))
        findings.verdict.push_back(sentence.get<std::string>());
    } catch (const nlohmann::json::exception&) {
      throw InputError(
          fmt::format("{}: is no study of nystrom approximation", printable_path(file)));
    }
  }
  return findings;
}

SweepRecord read_sweep(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  const nlohmann::json summary = read_json_file(file, max_file_bytes);
  SweepRecord sweep;
  try {
    sweep.points = {
        "sweep",
        {"options", "runs", summary.at("metric").get<std::string>() + " (mean)", "deviation"}};
    for (const auto& point : summary.at("points")) {
      const auto options = point.at("options").get<std::vector<std::string>>();
      const std::string name = options.empty() ? "–" : fmt::format("{}", fmt::join(options, ", "));
      sweep.points.rows.push_back({name, static_cast<std::int64_t>(point.at("runs").size()),
                                   number_or_nan(point.at("mean")),
                                   number_or_nan(point.at("deviation"))});
      for (const auto& each : point.at("runs")) {
        // RUN_DIR/POINT/seed-S or RUN_DIR/seed-S, wherever RUN_DIR is now.
        const fs::path written = each.at("run_dir").get<std::string>(), seed = written.filename();
        const fs::path within = options.empty() ? seed : written.parent_path().filename() / seed;
        sweep.runs.push_back(read_run(folder / within));
        sweep.runs.back().name = within.string();
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: is no summary of a sweep", printable_path(file)));
  }
  require_input(!sweep.runs.empty(), "{}: names no runs", printable_path(file));
  return sweep;
}

}  // namespace nystrom
