// Inputs of a report other than run folders: the files of a study and the summary of a sweep.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/report/report_html.h"
#include "train/report/report_page.h"
#include "train/state/run_folder.h"

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

void check_page_place(const fs::path& path) {
  if (!fs::exists(fs::symlink_status(path))) return;
  const InputFile file = InputFile::open(path);
  require_input(is_html_page(file.text(0, std::min<std::int64_t>(file.size(), 4096))),
                "{}: exists and is no page of nystrom report; move it, or name another --output",
                printable_path(path));
}

std::string sweep_page(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  const nlohmann::json summary = read_json_file(file, max_file_bytes);
  std::vector<RunHistory> runs;
  SweepResult sweep;
  try {
    sweep.metric = summary.at("metric").get<std::string>();
    for (const auto& each : summary.at("points")) {
      SweepPoint point{each.at("options").get<std::vector<std::string>>(), {}};
      for (const auto& run : each.at("runs")) {
        const fs::path within =
            place_in_sweep(folder, !point.overrides.empty(), run.at("run_dir").get<std::string>());
        runs.push_back(read_run_history(folder / within));
        runs.back().name = within.string();
        point.runs.push_back({run.at("seed"), within.string(), run.at("steps"), run.at("best_step"),
                              run.at("metric"), number_or_nan(run.at("value"))});
        if (const auto test = run.find("test"); test != run.end())
          for (const auto& [name, value] : test->items())
            point.runs.back().test.emplace_back(name, number_or_nan(value));
      }
      if (!point.runs.empty()) sweep.points.push_back(std::move(point));
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: is no summary of a sweep", printable_path(file)));
  }
  require_input(!runs.empty(), "{}: names no runs", printable_path(file));
  return comparison_page(runs, sweep);
}

}  // namespace nystrom
