// nystrom pretrain: pretraining on texts, or on the inputs of a task, from one YAML file.
#include <csignal>

#include "core/base/printable.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/objectives/pretrain.h"

namespace nystrom {
namespace {

struct PretrainOptions {
  CommonOptions common;
  std::string config;
};

void run(const PretrainOptions& options, Communicator& communicator, Device device, Log& log) {
  std::signal(SIGPIPE, SIG_IGN);  // where the reader of the messages ends, the run does not
  const RunSpec spec =
      resolve(config_file(options.config), options.common.overrides, RunKind::pretraining);
  const PretrainResult result = pretrain(spec, log, device, communicator);
  require_finished(result.run, log);
  const double baseline = result.evaluation.frequency_loss;
  if (const auto best = result.run.best_value; best && result.evaluation.tokens > 0)
    log.say(fmt::format(
        "validation loss {:.4f}; always predicting by token frequency: {:.4f}{}", *best, baseline,
        *best < baseline ? ""
                         : ", which is no worse: train longer, or with another learning rate"));
  log.say(fmt::format("done: {} steps; the model is {}/checkpoints/step-{}", result.run.steps,
                      printable_path(spec.options.run_dir),
                      result.run.best.value_or(result.run.steps)));
}

}  // namespace

Command add_pretrain_command(CLI::App& app) {
  auto options = std::make_shared<PretrainOptions>();
  auto* command = app.add_subcommand("pretrain",
                                     "Pretrain a model on texts, or on the inputs of a task, from "
                                     "one YAML file; prepares texts first, resumes by itself");
  command->footer(
      "A run with a task pretrains on the inputs of the task's examples: masked tokens of texts, "
      "masked rows of features.\n\nExamples:\n"
      "  nystrom pretrain my.yaml --set training.steps=2000\n"
      "  nystrom pretrain task.yaml --set run_dir=runs/inputs");
  command->add_option("CONFIG", options->config, "YAML file of the run")->required();
  options->common.add_to(*command);
  return spread(command, options, run);
}

}  // namespace nystrom
