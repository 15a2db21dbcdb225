// nystrom doctor: check this machine and this build, and suggest a remedy for each problem.
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "train/cli/commands.h"
#include "train/plan/doctor.h"

namespace nystrom {
namespace {

struct DoctorOptions {
  CommonOptions common;
};

void run(const DoctorOptions& options, Device, Log&) {
  nlohmann::ordered_json object;
  for (const auto& findings : {examine_machine(), examine_gpus(), examine_libraries()}) {
    for (const Finding& finding : findings) {
      object[finding.name] = {
          {"status", finding.status}, {"text", finding.text}, {"advice", finding.advice}};
      if (options.common.json) continue;
      fmt::print("{:<8} {:<13}  {}{}{}\n", finding.status, finding.name, finding.text,
                 finding.advice.empty() ? "" : "; ", finding.advice);
    }
  }
  if (options.common.json) fmt::print("{}\n", object.dump());
}

}  // namespace

Command add_doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  auto* command = app.add_subcommand(
      "doctor", "Check this machine and this build, and say how to fix each problem");
  command->footer(
      "ok: in order; note: worth knowing; missing: this machine has something that this build "
      "cannot use.\n\nExample:\n  nystrom doctor");
  options->common.add_to(*command, {.set = false, .json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
