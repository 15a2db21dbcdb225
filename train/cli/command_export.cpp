// nystrom export: write a model as a Hugging Face folder with its tokenizer and a model card.
#include <nlohmann/json.hpp>

#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "train/cli/commands.h"
#include "train/export/export.h"
#include "train/export/export_score.h"
#include "train/objectives/task_settings.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* own_pooling = "own";

struct ExportCommand {
  CommonOptions common;
  std::string model, folder, attention, pooling;
  std::vector<std::string> text;
  ExportOptions written;

  /// Whether the results of the runtimes are compared.
  bool measures() const { return written.verify || written.onnx == OnnxExport::int8; }
};

Json to_json(const std::string& folder, const ExportResult& result,
             const std::optional<ExportScores>& scores) {
  Json differences = Json::array();
  for (const ExportDifference& each : result.differences) {
    differences.push_back({{"tokens", each.tokens},
                           {"positions", each.positions},
                           {"absolute", each.absolute},
                           {"relative", each.relative}});
  }
  Json json = {{"folder", folder},
               {"parameters", result.parameters},
               {"files", result.files},
               {"differences", differences}};
  if (!scores) return json;
  for (const RuntimeScore& each : scores->runtimes) {
    Json runtime = {{"runtime", each.runtime}, {"loss", each.loss}, {each.metric, each.value}};
    if (each.agreement) runtime["same_prediction"] = *each.agreement;
    json["scores"].push_back(runtime);
  }
  return json;
}

void print(const ExportScores& scores) {
  fmt::print("on {}:\n", scores.data);
  fmt::print("{:<14}{:>8}{:>14}{:>18}\n", "", "loss", scores.runtimes[0].metric, "same prediction");
  for (const RuntimeScore& each : scores.runtimes) {
    const std::string same = each.agreement ? fmt::format("{:.2f} %", 100 * *each.agreement) : "-";
    fmt::print("{:<14}{:>8.4f}{:>14}{:>18}\n", each.runtime, each.loss, metric_text(each.value),
               same);
  }
}

/// `unmeasured`: why there are no scores; empty where nobody asked for any.
void print(const ExportCommand& options, const ExportResult& result,
           const std::optional<ExportScores>& scores, const std::string& unmeasured) {
  fmt::print("{}: {} parameters; {}\n", printable_path(options.folder), result.parameters,
             fmt::join(result.files, ", "));
  if (options.written.verify) fmt::print("read back: equal\n");
  if (scores)
    print(*scores);
  else if (!unmeasured.empty())
    fmt::print("no loss was measured: {}\n", unmeasured);
  if (result.differences.empty()) return;
  fmt::print("largest difference of results between nystrom and transformers, on sample texts:\n");
  fmt::print("{:>8} {:>10} {:>12} {:>12}\n", "tokens", "padded to", "absolute", "relative");
  for (const ExportDifference& each : result.differences) {
    fmt::print("{:>8} {:>10} {:>12.2e} {:>12.2e}\n", each.tokens, each.positions, each.absolute,
               each.relative);
  }
}

void run(const ExportCommand& options, Device, Log& log) {
  require_input(options.text.empty() || options.measures(),
                "--text is for --verify or --onnx int8, which measure results; give one of them");
  const SplitOverrides overrides(options.common.overrides, {"data"});
  overrides.require_text(options.text);
  const ModelFolder source = open_model(options.model, overrides.model, log);
  require_input(options.text.empty() || source.config.head != Head::none,
                "--text: {} has no head whose loss it could measure; nystrom evaluate --pairs or "
                "--retrieval measures vectors",
                printable_path(source.path));
  require_input(options.text.empty() || source.config.head != Head::replaced_tokens,
                "--text: {} tells replaced tokens, and a text has none; leave it out",
                printable_path(source.path));
  require_input(options.text.empty() || !source.config.embed_dim,
                "--text: {} reads features, and only what reads texts is measured here; leave it "
                "out, and measure the folder with nystrom evaluate --file",
                printable_path(source.path));
  ExportOptions written = options.written;
  written.softmax = options.attention == "softmax";
  written.sentence_transformers = !options.pooling.empty();
  if (!options.pooling.empty() && options.pooling != own_pooling)
    written.pooling = value_named<SentencePooling>(options.pooling);
  const bool measured = options.measures() && source.config.head != Head::replaced_tokens;
  std::optional<ExportScores> scores;
  const ExportResult result = [&] {
    const EndAtSignals stop("stopped; nothing was written");
    require_empty_target(options.folder);  // before the data are read
    ExportScoring score;
    if (measured) score = export_scoring(source, written, options.text, overrides.run, log);
    return export_model(
        source, options.folder, written, log, [&](const std::filesystem::path& folder) {
          if (score)
            with_context(printable_path(source.path), [&] { scores = score(folder, log); });
        });
  }();
  if (options.common.json) {
    fmt::print("{}\n", to_json(json_path(options.folder), result, scores).dump());
  } else {
    std::string unmeasured;
    if (measured)
      unmeasured = source.config.head == Head::none
                       ? "the model has no head; nystrom evaluate --pairs or --retrieval measures "
                         "its vectors"
                   : source.config.embed_dim
                       ? "the model reads features; nystrom evaluate --file measures the folder"
                       : "no file of validation data was found; --text FILE gives one";
    print(options, result, scores, unmeasured);
  }
}

}  // namespace

Command add_export_command(CLI::App& app) {
  auto options = std::make_shared<ExportCommand>();
  auto* command = app.add_subcommand(
      "export", "Write a model as a Hugging Face folder with tokenizer and model card");
  command->footer(
      "The folder loads in transformers; its README.md has the code. It holds the classes that "
      "compute this model there, for trust_remote_code=True. Where transformers' own class "
      "computes the same, it needs none: a model that still is a BERT leaves as a BERT.\n\n"
      "Examples:\n  nystrom export runs/small exported --verify\n  nystrom export runs/small exact "
      "--attention softmax\n  nystrom export runs/small other --format transformers --verify");
  command
      ->add_option("RUN_OR_CHECKPOINT", options->model,
                   "run directory, checkpoint or Hugging Face folder")
      ->required();
  command->add_option("DIR", options->folder, "folder to write; must be new or empty")->required();
  add_choice(*command, "--format", options->written.format,
             "bert, roberta, …: a folder of that model_type; nystrom: with the classes that "
             "compute the model; transformers: for transformers' Nyströmformer, whatever it "
             "computes, which --verify measures; auto: as BERT, RoBERTa, … where the model is one, "
             "else nystrom; default: auto")
      ->default_str("");
  command
      ->add_option("--attention", options->attention,
                   "softmax: exact attention, which transformers runs at any length; default: the "
                   "model's own")
      ->check(CLI::IsMember({"softmax"}));
  command
      ->add_option("--sentence-transformers", options->pooling,
                   "add the files with which that library makes the model's vectors; mean or cls: "
                   "with this pooling")
      ->expected(0, 1)
      ->default_str(own_pooling)
      ->check(CLI::IsMember({own_pooling, "mean", "cls"}));
  add_choice(*command, "--onnx", options->written.onnx,
             "also write onnx/model.onnx; int8: and onnx/model_int8.onnx, a quarter of its size, "
             "and measure how its rounding changes loss and metric")
      ->expected(0, 1)
      ->default_str("f32");
  command->add_flag(
      "--verify", options->written.verify,
      "read the folder back and measure loss or metric on real text; where transformers runs its "
      "own class, also what that class computes");
  command->add_option("--text", options->text,
                      "text files, or files of the model's task, for --verify and --onnx int8; "
                      "default: the run's validation data");
  options->common.add_to(*command, {.device = false, .json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
