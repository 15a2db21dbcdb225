// nystrom evaluate: measure how well a model predicts the masked tokens of a text.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/check.h"
#include "train/commands.h"

namespace nystrom {
namespace {

struct EvaluateOptions {
  CommonOptions common;
  std::string model;
  std::vector<std::string> text;
};

void run([[maybe_unused]] const EvaluateOptions& options) {
  throw Error("not written yet");
}

}  // namespace

Command add_evaluate_command(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  auto* command = app.add_subcommand("evaluate", "Measure how well a model predicts the masked tokens of a text");
  command->footer("Example:\n  nystrom evaluate runs/small --text heldout.txt");
  command->add_option("MODEL", options->model, "Hugging Face folder, run directory or checkpoint")->required();
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
