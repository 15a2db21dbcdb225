// nystrom extend: write a model with a longer position table, for further training at that length.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/export/extend.h"

namespace nystrom {
namespace {

struct ExtendCommand {
  CommonOptions common;
  std::string model, folder, positions = "tile";
  ExtendOptions extend;
  bool json = false;
};

void run(const ExtendCommand& options) {
  options.common.apply();
  Log log(options.common.quiet);
  const ModelFolder source = open_model_folder(options.model, options.common.overrides, log);
  ExtendOptions extend = options.extend;
  extend.positions = value_named<NewPositions>(options.positions);
  const ExtendResult result = write_extended(source, extend, options.folder, log);
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"positions", extend.length},
                                              {"landmarks", result.landmarks},
                                              {"parameters", result.parameters}}
                           .dump());
    return;
  }
  fmt::print(
      "{}: {} positions instead of {}, {} landmarks, {} parameters; train on with model.from "
      "before use\n",
      printable_path(options.folder), extend.length, source.config.max_position_embeddings,
      result.landmarks, result.parameters);
}

}  // namespace

Command add_extend_command(CLI::App& app) {
  auto options = std::make_shared<ExtendCommand>();
  auto* command = app.add_subcommand(
      "extend", "Write a model with a longer position table, to train on at that length");
  command->footer(
      "The folder is one as checkpoints are; go on with model.from in the YAML file of a "
      "pretraining or fine-tuning run.\n\n"
      "Example:\n  nystrom extend runs/small longer --length 4096 --landmarks 64");
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")
      ->required();
  command->add_option("DIR", options->folder, "folder to write; must be new or empty")->required();
  command->add_option("--length", options->extend.length, "positions of the new model")
      ->required()
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--landmarks", options->extend.landmarks,
                   "landmarks of the new model; default: as many as before")
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--positions", options->positions,
                   "tile: new positions repeat the trained ones; interpolate: these are stretched")
      ->check(CLI::IsMember({"tile", "interpolate"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  options->common.add_to(*command, {.device = false});
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
