// nystrom check: tell everything that is wrong with a configuration, and with its data, before any work.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/check.h"
#include "train/commands.h"

namespace nystrom {
namespace {

struct CheckOptions {
  CommonOptions common;
  std::string config;
  bool data = false, json = false;
};

void run([[maybe_unused]] const CheckOptions& options) {
  throw Error("not written yet");
}

}  // namespace

Command add_check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  auto* command = app.add_subcommand("check", "Tell everything that is wrong with a configuration, and with its data, before any work");
  command->footer("Example:\n  nystrom check my.yaml --data");
  command->add_option("CONFIG", options->config, "YAML file of the run")->required();
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
