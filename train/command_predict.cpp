// nystrom predict: say what a model predicts: a masked language model fills in masks.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/check.h"
#include "train/commands.h"

namespace nystrom {
namespace {

struct PredictOptions {
  CommonOptions common;
  std::string model;
  std::vector<std::string> text;
};

void run([[maybe_unused]] const PredictOptions& options) {
  throw Error("not written yet");
}

}  // namespace

Command add_predict_command(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  auto* command = app.add_subcommand("predict", "Say what a model predicts: a masked language model fills in masks");
  command->footer("Example:\n  nystrom predict runs/small \"The ship sailed on the [MASK].\"");
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")->required();
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
