// nystrom config: list, print and explain configurations.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/check.h"
#include "train/commands.h"

namespace nystrom {
namespace {

struct ConfigOptions {
  CommonOptions common;
  std::string recipe, explain;
  bool list = false, schema = false;
};

void run([[maybe_unused]] const ConfigOptions& options) {
  throw Error("not written yet");
}

}  // namespace

Command add_config_command(CLI::App& app) {
  auto options = std::make_shared<ConfigOptions>();
  auto* command = app.add_subcommand("config", "List, print and explain configurations");
  command->footer("Examples:\n  nystrom config small > my.yaml\n  nystrom config --explain training.batch_size");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
