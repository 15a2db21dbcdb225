// nystrom doctor: tell what this machine and this build have, and what to do about what is missing.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/check.h"
#include "train/commands.h"

namespace nystrom {
namespace {

struct DoctorOptions {
  CommonOptions common;
  bool json = false;
};

void run([[maybe_unused]] const DoctorOptions& options) {
  throw Error("not written yet");
}

}  // namespace

Command add_doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  auto* command = app.add_subcommand("doctor", "Tell what this machine and this build have, and what to do about what is missing");
  command->footer("Example:\n  nystrom doctor");
  command->add_flag("--json", options->json, "print one JSON object");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
