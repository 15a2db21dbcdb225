// nystrom check: report all errors of a configuration, and optionally of its data, before a run
// starts.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/match_files.h"
#include "nn/model.h"
#include "train/cli/check_report.h"
#include "train/cli/commands.h"
#include "train/config/validation.h"
#include "train/loop/run_memory.h"
#include "train/objectives/corpus_statistics.h"
#include "train/objectives/embedding_objective.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/finetune.h"
#include "train/optim/schedule.h"
#include "train/plan/memory_plan.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

struct CheckOptions {
  CommonOptions common;
  std::string config;
  bool data = false, json = false;
  std::optional<int> devices;
  std::string memory;
  std::optional<double> bandwidth;
  std::string speed;

  /// Whether the run is planned for other machines than this one.
  bool plans_elsewhere() const { return devices || !memory.empty() || bandwidth || !speed.empty(); }
};

void match_each(ResolutionErrors& errors, const char* option,
                const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns)
    errors.note(option, [&] { match_files(std::span(&pattern, 1)); });
}

/// Reads the first example of the files that `patterns` match: enough to see missing columns.
void read_first_example(const TaskConfig& task, const std::vector<std::string>& patterns) {
  try {
    const bool labels = task.kind != TaskKind::embeddings;
    open_examples(task, patterns, labels ? Labelled::required : Labelled::optional)->next();
  } catch (const BadRow&) {
    if (task.bad_rows != BadRows::skip) throw;
  }
}

/// Checks the files of a task, and reads no more than one example of each set.
void check_task_files(const RunConfig& config, ResolutionErrors& errors) {
  const TaskConfig task = resolve_task(config.task);
  const bool readable = errors.empty() && task.kind != TaskKind::features;
  for (const auto& [option, patterns] :
       {std::pair("task.train", &task.train), std::pair("task.validation", &task.validation)}) {
    const std::size_t before = errors.size();
    if (patterns->empty()) continue;  // task.validation_fraction
    if (patterns == &task.validation && validates_by_retrieval(task)) {
      errors.note(option, [&] { read_validation_folder(task); });
      continue;
    }
    if (task.format != TaskFormat::folders) match_each(errors, option, *patterns);
    if (readable && errors.size() == before)
      errors.note(option, [&, files = patterns] { read_first_example(task, *files); });
  }
}

/// Resolves the run. Throws one InputError with all errors, one per line, if there are any.
RunSpec resolve_sound(const CheckOptions& options, Device device) {
  RunSpec given = read_run(config_file(options.config), options.common.overrides);
  const bool task = has_task(given.options);
  ResolutionErrors errors(printable(options.config));
  RunSpec spec =
      resolve(std::move(given), task ? RunKind::finetuning : RunKind::pretraining, errors);
  if (task) check_task_files(spec.options, errors);
  if (!options.plans_elsewhere()) {
    errors.note("", [&] { require_computable(spec.options, device); });
    if (errors.empty()) errors.note("", [&] { require_memory(spec.options, device, 1); });
  }
  errors.throw_if_any();
  return spec;
}

/// Warns that the warm-up cannot be checked: training.epochs gives a number of steps only with the
/// data.
void add_warmup_warning(CheckReport& report) {
  const auto warmup = report.config.schedule.warmup_steps;
  if (report.sequences || report.config.training.steps || warmup.value_or(0) == 0) return;
  report.warnings.push_back(
      fmt::format("training.epochs decide the steps: whether schedule.warmup_steps {} is fewer is "
                  "known with --data",
                  *warmup));
}

/// Reads the data of a task, which completes the configuration of the plan.
void read_task(CheckReport& report, const RunSpec& spec) {
  if (spec.options.task.kind == TaskKind::embeddings) {
    RunSpec complete = spec;
    const EmbeddingData data = read_embedding_data(complete.options, spec.tokenizer);
    report.task = describe(data);
    for (std::string& line : embedding_warnings(data)) report.warnings.push_back(std::move(line));
    report.sequences = std::ssize(data.train->samples());
    require_same_run(complete);
    report.config = std::move(complete.options);
    return;
  }
  PreparedTask task = prepare_task(spec);
  const TaskStatistics statistics = task_statistics(*task.train, *task.validation);
  report.config = std::move(task.spec.options);
  report.task = describe(statistics, report.config);
  report.sequences = task.train->size();
  // These warnings compare examples. They replace those about shared files.
  for (const Lines& more :
       {tokenizer_warnings(report.config, spec.tokenizer.get()), task_warnings(statistics)})
    report.warnings.insert(report.warnings.end(), more.begin(), more.end());
}

/// Reads the data of pretraining, or the tokens in the cache, and completes the configuration.
void read_corpus(CheckReport& report, const RunSpec& spec, bool data, Log& log) {
  Communicator alone;
  const std::optional<Corpus> corpus =
      data ? prepare_corpus(spec, log, alone) : cached_corpus(spec, log);
  if (!corpus) return;
  report.config = with_tokenizer(spec, corpus->tokenizer).options;
  if (data) {
    report.data = corpus_statistics(report.config, *corpus, log);
    report.sequences = report.data->train.sequences;
    for (const std::string& line : data_warnings(*report.data)) report.warnings.push_back(line);
  } else {
    report.sequences = 0;
    for (const auto& source : masked_sources(corpus->train, *corpus->tokenizer, report.config))
      *report.sequences += source.packing->size();
  }
  require_schedules_within_run(report.config, *report.sequences);
  for (const std::string& line : epoch_warnings(epochs(report.config, *report.sequences)))
    report.warnings.push_back(line);
}

CheckReport make_report(const CheckOptions& options, Device device, Log& log) {
  const RunSpec spec = resolve_sound(options, device);
  CheckReport report;
  report.config = spec.options;
  report.warnings = shared_file_warnings(report.config);
  if (!has_task(report.config))
    read_corpus(report, spec, options.data, log);
  else if (options.data)
    read_task(report, spec);
  report.parameters = Model(report.config.model).parameters().count();
  add_warmup_warning(report);
  return report;
}

Fit find_fit(const CheckOptions& options, const RunConfig& config) {
  Fit fit;
  fit.devices = options.devices.value_or(1);
  fit.elsewhere = options.plans_elsewhere();
  if (!options.memory.empty()) fit.memory = parse_amount("--memory", options.memory);
  if (!fit.elsewhere && machine_memory() > 0) fit.memory = machine_memory();
  const std::int64_t limit = config.training.batch_size / fit.devices;
  require_input(limit > 0,
                "--gpus {}: training.batch_size {} leaves some of them without a sequence",
                fit.devices, config.training.batch_size);
  fit.plan = plan_memory(config, fit.devices);
  if (fit.memory) fit.largest = fit.plan.largest_micro_batch(*fit.memory, limit);
  while (fit.largest.value_or(0) > 0 && config.training.batch_size % *fit.largest != 0)
    --*fit.largest;  // a micro-batch must divide the batch
  require_input(
      options.speed.empty() || options.bandwidth || fit.devices == 1,
      "--speed with several devices needs --bandwidth, the GB a second in and out of each");
  std::optional<double> speed;
  if (!options.speed.empty()) speed = static_cast<double>(parse_amount("--speed", options.speed));
  if (speed || options.bandwidth)
    fit.time = plan_time(fit.plan, fit.devices, options.bandwidth.value_or(1) * 1e9, speed);
  return fit;
}

/// Throws an InputError if the run does not fit into the memory of a device.
void require_fit(const Fit& fit, const RunConfig& config) {
  const std::int64_t batch = config.training.micro_batch_size, needed = fit.plan.total(batch);
  if (!fit.memory || needed <= *fit.memory) return;
  const std::string advice =
      *fit.largest > 0
          ? fmt::format("training.micro_batch_size {} is the largest that fits", *fit.largest)
          : "not even one sequence fits: set training.activation_checkpointing: true, "
            "training.zero: 1 or a smaller model";
  throw InputError(
      fmt::format("the run needs {}{} {}; {}", memory_text(static_cast<double>(needed)),
                  fit.elsewhere ? " on each device, --memory allows" : ", and this machine has",
                  memory_text(static_cast<double>(*fit.memory)), advice));
}

void run(const CheckOptions& options) {
  const Device device = options.common.apply();
  Log log(options.common.quiet);
  try {
    CheckReport report = make_report(options, device, log);
    if (options.plans_elsewhere() || device.is_cpu()) report.fit = find_fit(options, report.config);
    if (report.fit) require_fit(*report.fit, report.config);
    if (options.json) {
      fmt::print("{}\n", report_json(report));
    } else {
      print(report);
      std::fflush(stdout);  // the report appears before the warnings
      for (const std::string& line : report.warnings) log.warn(line);
    }
  } catch (const InputError& error) {
    Json errors = Json::array();
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) errors.push_back(line);
    if (options.json) fmt::print("{}\n", Json{{"ok", false}, {"errors", errors}}.dump());
    throw;
  }
}

}  // namespace

Command add_check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  auto* command = app.add_subcommand(
      "check", "Report every error of a configuration and its data before any work");
  command->footer(
      "--data tokenizes the text, or uses the tokens in the cache, and shows samples as the model\n"
      "sees them. For a task it shows lengths, truncation and labels.\n\n"
      "--gpus, --memory, --bandwidth and --speed estimate whether the run fits, and how long a\n"
      "step takes. No training step is run.\n\n"
      "Examples:\n  nystrom check my.yaml --data\n  nystrom check my.yaml --gpus 8 --memory 80G "
      "--bandwidth 50 --speed 300T");
  command->add_option("CONFIG", options->config, "YAML file of the run")->required();
  command->add_flag(
      "--data", options->data,
      "also report on the data: lengths, padding, unknown tokens, duplicates, masked samples");
  command->add_option("--gpus", options->devices, "devices that share the run, or processes")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--memory", options->memory, "memory of each: 80G, 512M");
  command->add_option("--bandwidth", options->bandwidth, "GB per second in and out of each")
      ->check(CLI::PositiveNumber);
  command->add_option(
      "--speed", options->speed,
      "operations per second that each achieves, as nystrom bench measures: 300T, 400G");
  command->add_flag("--json", options->json, "print one JSON object");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
