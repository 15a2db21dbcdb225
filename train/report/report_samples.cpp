// Filled masks of a run's checkpoints, for its report.
#include "train/report/report_page.h"
#include "train/state/checkpoint.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

/// Limit for the weights of checkpoints other than the best one. The report then takes a few more
/// seconds at most.
constexpr std::uintmax_t small_model_bytes = std::uintmax_t{64} << 20;

/// The best checkpoint of a run and, for a small model, the other complete ones. They are in order
/// of steps.
std::vector<fs::path> checkpoints_to_ask(const RunHistory& run, Log& log) {
  const fs::path best = find_model(run.path, log), folder = run.path / "checkpoints";
  std::vector<fs::path> paths;
  for (const std::int64_t step : checkpoint_steps(folder)) {
    const fs::path path = checkpoint_path(folder, step);
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path / "model.safetensors", error);
    const bool small = !error && bytes <= small_model_bytes;
    if (path == best || (small && checkpoint_problem(path).empty()))
      paths.insert(paths.begin(), path);
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
  for (const std::string& text : texts)
    filled.texts.push_back(sample_fills(*model, *tokenizer, text));
  return filled;
}

}  // namespace

MaskSamples sample_masks(const RunHistory& run, const std::vector<std::string>& texts, Log& log) {
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

}  // namespace nystrom
