// nystrom finetune: train a downstream task from one YAML file, once or as a sweep over seeds and
// options.
#include <csignal>

#include "core/base/interruption.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/objectives/finetune.h"
#include "train/objectives/sweep.h"

namespace nystrom {
namespace {

struct FinetuneOptions {
  CommonOptions common;
  std::string config;
  std::optional<std::int64_t> seeds;
  std::vector<std::string> grid;
  std::optional<std::string> folds;
};

void run_once(const FinetuneOptions& options, Log& log, Device device, Communicator& communicator) {
  const RunSpec spec =
      resolve(config_file(options.config), options.common.overrides, RunKind::finetuning);
  const FinetuneResult result = finetune(spec, log, device, communicator);
  require_finished(result, log);
  const std::string score = result.best_value
                                ? fmt::format(", {} {:.4f} at step {}", result.metric_name,
                                              *result.best_value, *result.best)
                                : "";
  log.say(fmt::format("done: {} steps{}; the model is {}/checkpoints/step-{}", result.steps, score,
                      printable_path(spec.options.run_dir), result.best.value_or(result.steps)));
}

void run(const FinetuneOptions& options, Communicator& communicator, Device device, Log& log) {
  std::signal(SIGPIPE, SIG_IGN);  // where the reader of the messages ends, the run does not
  if (!options.seeds && !options.folds && options.grid.empty())
    return run_once(options, log, device, communicator);
  SweepOptions sweep;
  sweep.seeds = options.seeds.value_or(1);
  sweep.folds = options.folds.has_value();
  for (const std::string& axis : options.grid) sweep.grid.push_back(parse_grid_axis(axis));
  const SweepResult result =
      run_sweep(options.config, options.common.overrides, sweep, log, device, communicator);
  if (!result.points.empty() && communicator.is_first())
    fmt::print("{}", sweep.folds ? fold_table(result) : sweep_table(result));
  if (result.interrupted) throw Interrupted("stopped; the same command goes on from there");
}

}  // namespace

Command add_finetune_command(CLI::App& app) {
  auto options = std::make_shared<FinetuneOptions>();
  auto* command = app.add_subcommand(
      "finetune", "Train a downstream task from one YAML file; resumes by itself");
  command->footer(
      "With --seeds, --folds or --grid each run has a folder of its own below run_dir; a table and "
      "run_dir/summary.json compare them.\n\n"
      "Examples:\n  nystrom finetune sst2.yaml --set model.from=runs/small\n"
      "  nystrom finetune sst2.yaml --seeds 5 --grid learning_rate=2e-5,3e-5");
  command->add_option("CONFIG", options->config, "YAML file of the run, with a task")->required();
  add_number(*command, "--seeds", options->seeds,
             "number of runs, with consecutive seeds from the configuration's on", 1, 1000);
  command
      ->add_option("--folds", options->folds,
                   "all, for tables of feature files: a run for each fold of task.folds or "
                   "task.splits, and a table of their metrics on the test parts")
      ->check(CLI::IsMember({"all"}))
      ->excludes("--seeds");
  command
      ->add_option("--grid", options->grid,
                   "option=value,value: a run for each value; several make the product")
      ->allow_extra_args(false);
  options->common.add_to(*command);
  return spread(command, options, run);
}

}  // namespace nystrom
