// nystrom report: write a page that shows one run or compares several.
#include <filesystem>
#include <set>

#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/stop_signals.h"
#include "core/check.h"
#include "train/cli/commands.h"
#include "train/report/report_html.h"
#include "train/report/report_page.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

struct ReportCommand {
  CommonOptions common;
  std::vector<std::string> runs, texts;
  std::string output;
  std::int64_t examples = 2000;
};

std::string page_of_run(const ReportCommand& options, const RunHistory& run, Device device,
                        Log& log) {
  const bool masked_lm = !has_task(run.config);
  require_input(masked_lm || options.texts.empty(),
                "--text: {} trains a task; masks are filled by masked language models", run.name);
  return run_page(
      run,
      options.texts.empty() ? read_mask_samples(run.path) : sample_masks(run, options.texts, log),
      read_study(run.path),
      masked_lm || options.examples == 0 ? TaskFindings()
                                         : find_task_errors(run, options.examples, device, log));
}

/// The page that compares several runs. A single argument is the folder of a sweep.
std::string page_of_runs(const ReportCommand& options) {
  require_input(options.texts.empty(), "--text: goes with one run");
  if (options.runs.size() == 1) return sweep_page(options.runs[0]);
  std::vector<RunHistory> runs;
  std::set<fs::path> seen;
  for (const std::string& run : options.runs) {
    require_input(seen.insert(fs::weakly_canonical(run)).second, "{}: is given twice",
                  printable(run));
    require_input(
        fs::exists(fs::path(run) / "config.yaml") || !fs::exists(fs::path(run) / "summary.json"),
        "{}: holds a sweep; give it alone, or the folders of its runs", printable(run));
    runs.push_back(read_run_history(run));
  }
  return comparison_page(runs, {});
}

void run(const ReportCommand& options, Device device, Log& log) {
  const fs::path first = options.runs[0];
  const bool one = options.runs.size() == 1, sweep = one && !fs::exists(first / "config.yaml") &&
                                                     fs::exists(first / "summary.json");
  const fs::path output = !options.output.empty() ? fs::path(options.output)
                          : one                   ? first / "report.html"
                                                  : fs::path("report.html");
  check_page_place(output);
  const std::string page = one && !sweep
                               ? page_of_run(options, read_run_history(first), device, log)
                               : page_of_runs(options);
  const EndAtSignals stop("stopped; nothing was written");
  write_text_file(output, page);
  fmt::print("{}\n", printable_path(output));
}

}  // namespace

Command add_report_command(CLI::App& app) {
  auto options = std::make_shared<ReportCommand>();
  auto* command =
      app.add_subcommand("report", "Write a page that shows a run, or compares several");
  command->footer(
      "The page is one file that needs no network. Of a masked language model it shows how masks "
      "are filled; of a task, the predictions for\n"
      "its validation files; of a folder that --seeds or --grid made, the runs in it; and what "
      "nystrom approximation left in\n"
      "RUN/approximation.\n\n"
      "Examples:\n  nystrom report runs/small\n  nystrom report runs/small runs/base --output "
      "both.html");
  command->add_option("RUN", options->runs, "run directory; several are compared")->required();
  command->add_option("--output", options->output,
                      "file to write; default: RUN/report.html, for several runs report.html");
  command
      ->add_option("--text", options->texts,
                   "text with [MASK] to be filled by the checkpoints that are kept, instead of "
                   "those that the run recorded (logging.fill_masks)")
      ->allow_extra_args(false);
  add_number(*command, "--examples", options->examples,
             "how many of a task's validation examples the best checkpoint predicts; 0: none", 0,
             1 << 30);
  options->common.add_to(*command, {.set = false, .device = false});
  return alone(command, options, run);
}

}  // namespace nystrom
