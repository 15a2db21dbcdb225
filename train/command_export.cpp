// nystrom export: write a model as a Hugging Face folder with tokenizer and model card.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/check.h"
#include "train/commands.h"

namespace nystrom {
namespace {

struct ExportOptions {
  CommonOptions common;
  std::string model, folder;
};

void run([[maybe_unused]] const ExportOptions& options) {
  throw Error("not written yet");
}

}  // namespace

Command add_export_command(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  auto* command = app.add_subcommand("export", "Write a model as a Hugging Face folder with tokenizer and model card");
  command->footer("Example:\n  nystrom export runs/small exported --verify");
  command->add_option("RUN_OR_CHECKPOINT", options->model, "run directory, checkpoint or Hugging Face folder")->required();
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
