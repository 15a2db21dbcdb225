// nystrom evaluate: measure how well a model predicts the masked tokens of a text.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json.h"
#include "train/commands.h"
#include "train/config_io.h"
#include "train/corpus.h"
#include "train/evaluation.h"
#include "train/model_folder.h"
#include "train/progress.h"
#include "train/scratch_folder.h"
#include "train/stop_signals.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

struct EvaluateOptions {
  CommonOptions common;
  std::string model, dtype = "f32";
  std::vector<std::string> text;
  std::int64_t batch = 16;
  bool json = false;
};

/// Overrides of the model, and of how its text is cut and masked.
struct SplitOverrides {
  std::vector<std::string> model, text;

  explicit SplitOverrides(const std::vector<std::string>& overrides) {
    for (const std::string& each : overrides) {
      const std::string section = each.substr(0, each.find_first_of(".="));
      require_input(section == "model" || section == "data" || section == "masking" || section == "seed",
                    "--set {}: evaluate takes options of model, data and masking, and seed", printable(each, 80));
      (section == "model" ? model : text).push_back(each);
    }
  }
};

/// How the model was trained when its folder says so; else the defaults, with the longest sequences that the model takes.
RunConfig settings(const ModelFolder& folder, const std::vector<std::string>& overrides) {
  const fs::path file = folder.path / "config.yaml";
  const auto longest = folder.config.longest_sequence();
  RunConfig config;
  if (fs::exists(file)) {
    config = read_config(file.string(), overrides);
  } else {
    config.model = folder.config;
    config.model.attention.semantics = Semantics::nystrom;  // the length that transformers' needs is the model's, not that of the data
    config.data.sequence_length = trained_length(folder);
    config = parse_config(to_yaml(config), "default settings", overrides);
  }
  config.model = folder.config;
  const std::int64_t length = config.data.sequence_length;
  require_input(!longest || length <= *longest,
                "data.sequence_length {} is more than the {} tokens that the model takes; --set data.sequence_length={}", length,
                longest.value_or(0), longest.value_or(0));
  const auto fixed = config.model.fixed_length();
  require_input(
      !fixed || length == *fixed,
      "data.sequence_length {}: with attention.semantics transformers this model takes {} alone; --set data.sequence_length={}, or "
      "--set model.attention.semantics=nystrom",
      length, fixed.value_or(0), fixed.value_or(0));
  return config;
}

Evaluation measure(const EvaluateOptions& options, const ModelFolder& folder, const RunConfig& config, Log& log) {
  const std::vector<fs::path> files = match_files(options.text);
  const SentencePieceTokenizer tokenizer = open_masked_lm_tokenizer(folder);
  const auto model = load_model(folder.path, folder.config, dtype_named(options.dtype), StoreMode::inference);
  const StopSignals stop;
  const auto stop_if_asked = [&] {
    if (stop.requested()) throw Interrupted("stopped; nothing was kept");
  };
  const ScratchFolder scratch;
  auto tokens = tokenize(files, config.data.documents, tokenizer, scratch.path() / "tokens", log, [&](std::int64_t) {
    stop_if_asked();
    return true;
  });
  const MaskedSamples samples = masked_samples(std::move(tokens), tokenizer, config);
  const std::int64_t total = samples.packing->size();
  Progress progress("sequence", 0, total, log);
  const auto start = std::chrono::steady_clock::now();
  return evaluate_masked_lm(*model, samples, options.batch, [&](std::int64_t done) {
    stop_if_asked();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress.update(done, fmt::format("{:.1f} sequences/s", static_cast<double>(done) / seconds), done == total);
  });
}

void print(const Evaluation& result) {
  const auto line = [](const char* name, double loss, double accuracy) {
    fmt::print("{:<22}{:>8.4f}{:>14.2f}{:>9.2f} %\n", name, loss, std::exp(loss), 100 * accuracy);
  };
  fmt::print("{} tokens asked\n{:<22}{:>8}{:>14}{:>11}\n", result.tokens, "", "loss", "perplexity", "accuracy");
  line("model", result.loss, result.accuracy);
  line("by token frequency", result.frequency_loss, result.frequency_accuracy);
  const double gain = result.frequency_loss - result.loss;
  fmt::print("the model is {} than always predicting by the token frequency of this text, by {:.4f} nats a token\n",
             gain > 0 ? "better" : "no better", std::abs(gain));
}

void print_json(const Evaluation& result) {
  const nlohmann::ordered_json json = {{"tokens", result.tokens},
                                       {"loss", result.loss},
                                       {"perplexity", std::exp(result.loss)},
                                       {"accuracy", result.accuracy},
                                       {"frequency_loss", result.frequency_loss},
                                       {"frequency_accuracy", result.frequency_accuracy},
                                       {"better_than_frequency", result.loss < result.frequency_loss}};
  fmt::print("{}\n", json.dump());
}

void run(const EvaluateOptions& options) {
  options.common.apply();
  require_input(!options.text.empty(), "nothing to evaluate on; give text files: nystrom evaluate {} --text heldout.txt",
                printable(options.model));
  Log log(options.common.quiet);
  const SplitOverrides overrides(options.common.overrides);
  const ModelFolder folder = open_model_folder(options.model, overrides.model, log);
  const RunConfig config = settings(folder, overrides.text);
  const Evaluation result = measure(options, folder, config, log);
  if (options.json) {
    print_json(result);
  } else {
    print(result);
  }
}

}  // namespace

Command add_evaluate_command(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  auto* command = app.add_subcommand("evaluate", "Measure how well a model predicts the masked tokens of a text");
  command->footer(
      "Text is cut and masked as in the model's training when its folder says how (config.yaml), else by the defaults; --set data.… and\n"
      "--set masking.… change that, --set model.… the model.\n\n"
      "Example:\n  nystrom evaluate runs/small --text heldout.txt --set data.documents=lines");
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")->required();
  command->add_option("--text", options->text, "text files: paths and patterns; plain, .gz or .zst");
  command->add_option("--batch", options->batch, "sequences computed at once")->check(CLI::Range(1, 1 << 16))->capture_default_str();
  command->add_option("--dtype", options->dtype, "type of the computation")
      ->check(CLI::IsMember({"f32", "bf16", "f64"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
