// nystrom extend: write a model with a longer position table, for further training at that length.
#include <nlohmann/json.hpp>

#include "core/base/new_folder.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/export/extend.h"

namespace nystrom {
namespace {

struct ExtendCommand {
  CommonOptions common;
  std::string model, folder;
  ExtendOptions extend;
};

void run(const ExtendCommand& options, Device, Log& log) {
  const EndAtSignals stop("stopped; nothing was written");
  const ModelFolder source = open_model(options.model, options.common.overrides, log);
  require_empty_target(options.folder);  // before the weights are read
  const auto model = extend_model(source, options.extend);
  require_kept(options.common.overrides, source.config, model->config());
  const std::int64_t length = options.extend.length, parameters = model->parameters().count(),
                     landmarks = model->config().attention.num_landmarks,
                     old = source.config.max_position_embeddings,
                     trained = trained_positions(source);
  write_model_folder(source, *model, length, options.folder, log);
  if (options.common.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{
                   {"positions", length}, {"landmarks", landmarks}, {"parameters", parameters}}
                   .dump());
    return;
  }
  fmt::print(
      "{}: {} positions instead of {}{}, {}{} parameters; train on with model.from before use\n",
      printable_path(options.folder), length, old,
      trained < old ? fmt::format(" ({} of them trained)", trained) : "",
      model->config().has_kind(AttentionKind::nystrom) ? fmt::format("{} landmarks, ", landmarks)
                                                       : "",
      parameters);
}

}  // namespace

Command add_extend_command(CLI::App& app) {
  auto options = std::make_shared<ExtendCommand>();
  auto* command = app.add_subcommand(
      "extend", "Write a model with a longer position table, to train on at that length");
  command->footer(
      "The folder has the form of a checkpoint. To train it on, name it as model.from in the YAML "
      "file of a run.\n\n"
      "Example:\n  nystrom extend runs/small longer --length 4096 --landmarks 64");
  add_model_to(*command, options->model);
  command->add_option("DIR", options->folder, "folder to write; must be new or empty")->required();
  command->add_option("--length", options->extend.length, "positions of the new model")
      ->required()
      ->check(CLI::Range(1, 1 << 24));
  add_number(*command, "--landmarks", options->extend.landmarks,
             "landmarks of the new model; default: as many as before", 1, 1 << 24);
  add_choice(*command, "--positions", options->extend.positions,
             "tile: new positions repeat the trained ones; interpolate: these are stretched");
  options->common.add_to(*command, {.device = false, .json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
