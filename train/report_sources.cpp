// Where the parts of a report beside metrics and settings come from: checkpoints, a study's files, a sweep's summary.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json.h"
#include "train/checkpoint.h"
#include "train/model_folder.h"
#include "train/report.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// Checkpoints beside the best one are asked too where their weights are at most this large: a few seconds in all.
constexpr std::uintmax_t small_model_bytes = std::uintmax_t{64} << 20;
constexpr std::size_t most_file_bytes = std::size_t{16} << 20;

/// The best checkpoint of a run, and of a small model the other whole ones, in order of steps.
std::vector<fs::path> checkpoints_to_ask(const RunRecord& run, Log& log) {
  const fs::path best = find_model(run.path, log), folder = run.path / "checkpoints";
  std::vector<fs::path> paths;
  for (const std::int64_t step : checkpoint_steps(folder)) {
    const fs::path path = checkpoint_path(folder, step);
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path / "model.safetensors", error);
    const bool small = !error && bytes <= small_model_bytes;
    if (path == best || (small && checkpoint_problem(path).empty())) paths.insert(paths.begin(), path);
  }
  return paths;
}

FilledMasks ask(const fs::path& checkpoint, const std::vector<std::string>& texts) {
  Log quiet(true);
  const ModelFolder folder = open_model_folder(checkpoint, {}, quiet);
  const auto tokenizer = open_masked_lm_tokenizer(folder);
  const auto model = load_model(folder.path, folder.config, DType::f32, StoreMode::inference);
  FilledMasks filled;
  const std::string name = checkpoint.filename().string();
  filled.step = std::stoll(name.substr(name.find('-') + 1));
  for (const std::string& text : texts) filled.texts.push_back(sample_fills(*model, *tokenizer, text));
  return filled;
}

}  // namespace

MaskSamples sample_masks(const RunRecord& run, const std::vector<std::string>& texts, Log& log) {
  MaskSamples samples;
  samples.texts = texts;
  std::vector<fs::path> checkpoints;
  try {
    checkpoints = checkpoints_to_ask(run, log);
  } catch (const InputError& error) {
    samples.note = error.what();
  }
  for (const fs::path& checkpoint : checkpoints) samples.steps.push_back(ask(checkpoint, texts));
  return samples;
}

StudyFindings read_study(const fs::path& run_dir) {
  StudyFindings findings;
  const fs::path folder = run_dir / "approximation";
  if (!fs::is_directory(folder)) return findings;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (file.extension() == ".svg") findings.pictures.push_back(read_text_file(file, most_file_bytes));
    if (file.extension() != ".json") continue;
    const nlohmann::json study = read_json_file(file, most_file_bytes);
    try {
      for (const auto& sentence : study.at("verdict")) findings.verdict.push_back(sentence.get<std::string>());
    } catch (const nlohmann::json::exception&) {
      throw InputError(fmt::format("{}: is no study of nystrom approximation", printable_path(file)));
    }
  }
  return findings;
}

SweepRecord read_sweep(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  const nlohmann::json summary = read_json_file(file, most_file_bytes);
  SweepRecord sweep;
  try {
    sweep.points = {"sweep", {"options", "runs", summary.at("metric").get<std::string>() + " (mean)", "deviation"}};
    for (const auto& point : summary.at("points")) {
      const auto options = point.at("options").get<std::vector<std::string>>();
      const std::string name = options.empty() ? "–" : fmt::format("{}", fmt::join(options, ", "));
      sweep.points.rows.push_back(
          {name, static_cast<std::int64_t>(point.at("runs").size()), point.at("mean").get<double>(), point.at("deviation").get<double>()});
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
