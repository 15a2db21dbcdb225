// nystrom export: write a model as a Hugging Face folder with tokenizer and model card.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/export/export.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

struct ExportCommand {
  CommonOptions common;
  std::string model, folder, attention;
  bool verify = false, json = false;
};

Json to_json(const std::string& folder, const ExportResult& result) {
  Json differences = Json::array();
  for (const ExportDifference& each : result.differences) {
    differences.push_back({{"tokens", each.tokens},
                           {"positions", each.positions},
                           {"absolute", each.absolute},
                           {"relative", each.relative}});
  }
  return {{"folder", folder},
          {"parameters", result.parameters},
          {"files", result.files},
          {"differences", differences}};
}

void print(const std::string& folder, const ExportResult& result) {
  fmt::print("{}: {} parameters; {}\n", folder, result.parameters, fmt::join(result.files, ", "));
  if (result.differences.empty()) return;
  fmt::print(
      "read back: equal; largest difference of results between nystrom and transformers, on sample "
      "texts:\n");
  fmt::print("{:>8} {:>10} {:>12} {:>12}\n", "tokens", "padded to", "absolute", "relative");
  for (const ExportDifference& each : result.differences) {
    fmt::print("{:>8} {:>10} {:>12.2e} {:>12.2e}\n", each.tokens, each.positions, each.absolute,
               each.relative);
  }
}

void run(const ExportCommand& options) {
  options.common.apply();
  Log log(options.common.quiet);
  const ModelFolder source = open_model_folder(options.model, options.common.overrides, log);
  const ExportResult result =
      export_model(source, options.folder, {options.attention == "softmax", options.verify}, log);
  const std::string folder = printable_path(options.folder);
  if (options.json) {
    fmt::print("{}\n", to_json(folder, result).dump());
  } else {
    print(folder, result);
  }
}

}  // namespace

Command add_export_command(CLI::App& app) {
  auto options = std::make_shared<ExportCommand>();
  auto* command = app.add_subcommand(
      "export", "Write a model as a Hugging Face folder with tokenizer and model card");
  command->footer(
      "The folder loads in transformers; its README.md says how to call the model there, and what "
      "transformers computes otherwise.\n\n"
      "Examples:\n  nystrom export runs/small exported --verify\n  nystrom export runs/small exact "
      "--attention softmax");
  command
      ->add_option("RUN_OR_CHECKPOINT", options->model,
                   "run directory, checkpoint or Hugging Face folder")
      ->required();
  command->add_option("DIR", options->folder, "folder to write; must be new or empty")->required();
  command
      ->add_option("--attention", options->attention,
                   "softmax: exact attention, which transformers runs at any length; default: the "
                   "model's own")
      ->check(CLI::IsMember({"softmax"}));
  command->add_flag(
      "--verify", options->verify,
      "read the folder back, and measure how far transformers' attention is from the model's own");
  command->add_flag("--json", options->json, "print one JSON object");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
