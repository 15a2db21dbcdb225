// nystrom check: tell everything that is wrong with a configuration, and with its data, before any
// work.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "nn/model.h"
#include "train/checkpoint/model_folder.h"
#include "train/checkpoint/run_state.h"
#include "train/cli/commands.h"
#include "train/config/config_io.h"
#include "train/finetune/finetune.h"
#include "train/loop/run_checks.h"
#include "train/optim/schedule.h"
#include "train/plan/memory_plan.h"
#include "train/pretrain/data_report.h"
#include "train/pretrain/evaluation.h"

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

  bool asks_for_memory() const { return devices || !memory.empty() || bandwidth || !speed.empty(); }
};

/// Whether a run fits, and how long its steps take.
struct Fit {
  MemoryPlan plan;
  int devices = 1;
  std::optional<std::int64_t> memory, largest;
  std::optional<StepTime> time;
};

/// What a run will be.
struct Plan {
  RunConfig config;
  std::int64_t parameters = 0;
  std::optional<std::int64_t>
      sequences;  // of training; unknown before the text was turned into tokens
  std::optional<DataReport> data;
  std::optional<TaskReport> task;
  std::optional<Fit> fit;
  Lines warnings;
};

/// Runs f; its InputError becomes a line that begins with `where`. Whether there was none.
template <class F>
bool note(Lines& lines, const std::string& where, const F& f) {
  try {
    f();
    return true;
  } catch (const InputError& error) {
    lines.push_back(where + ": " + error.what());
    return false;
  }
}

void match_each(Lines& lines, const std::string& where, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns)
    note(lines, where, [&] { match_files(std::span(&pattern, 1)); });
}

/// The same for a task, as far as its files are not read.
Lines find_task_problems(const std::string& file, RunConfig& config) {
  Lines lines;
  for (const Problem& problem : validate_finetuning(config))
    lines.push_back(file + ": " + problem.message);
  if (lines.empty()) {
    Log quiet(true);
    const bool fits = note(lines, file, [&] { fit_model_to_task(config, quiet); });
    RunConfig without_head = config;  // whose labels the files may tell
    without_head.start.fresh_head = true;
    if (fits) note(lines, file + ": model.from", [&] { check_run_start(without_head); });
  }
  if (resolve_task(config.task).format == TaskFormat::folders) return lines;
  match_each(lines, file + ": task.train", config.task.train);
  match_each(lines, file + ": task.validation", config.task.validation);
  return lines;
}

/// Everything wrong around a configuration that is right in itself. Fits the model to a tokenizer
/// that exists.
Lines find_problems(const std::string& file, RunConfig& config) {
  if (has_task(config)) return find_task_problems(file, config);
  Lines lines;
  for (const Problem& problem : validate_pretraining(config))
    lines.push_back(file + ": " + problem.message);
  match_each(lines, file + ": data.train", config.data.train);
  match_each(lines, file + ": data.validation", config.data.validation);
  const auto& path = config.tokenizer.path;
  const bool tokenizer_fits = !path || note(lines, file + ": tokenizer.path", [&] {
    config = fit_model_to_tokenizer(config, *open_tokenizer(*path));
  });
  // Without its tokenizer the settings of the run are not known in full.
  if (tokenizer_fits) {
    note(lines, file + ": run_dir", [&] { check_run_dir(config); });
    note(lines, file + ": model.from", [&] { check_run_start(config); });
  }
  return lines;
}

Lines split_lines(const std::string& text) {
  Lines lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// All lines in one InputError, when there are any.
RunConfig read_sound_config(const CheckOptions& options, Device device) {
  RunConfig config = read_config(options.config, start_defaults, options.common.overrides);
  Lines lines = find_problems(printable(options.config), config);
  if (!options.asks_for_memory())  // which may be that of other machines
    note(lines, printable(options.config), [&] { require_computable(config, device); });
  require_input(lines.empty(), "{}", fmt::join(lines, "\n"));
  return config;
}

/// Without the data the steps of epochs are not known.
void add_warmup_warning(Plan& plan) {
  const auto warmup = plan.config.schedule.warmup_steps;
  if (plan.sequences || plan.config.training.steps || warmup.value_or(0) == 0) return;
  plan.warnings.push_back(
      fmt::format("training.epochs decide the steps: whether schedule.warmup_steps {} is fewer is "
                  "known with --data",
                  *warmup));
}

void plan_task(Plan& plan, bool data, Log& log) {
  if (data) {
    PreparedTask task = prepare_task(plan.config, log);
    check_run(task.config);
    plan.task = report_task(*task.train, *task.validation);
    plan.sequences = task.train->size();
    plan.warnings = task_warnings(*plan.task);  // of examples, whichever files they come from
    plan.config = std::move(task.config);
  }
  plan.parameters = Model(plan.config.model).parameters().count();
}

Plan make_plan(const CheckOptions& options, Device device, Log& log) {
  Plan plan;
  plan.config = read_sound_config(options, device);
  plan.warnings = shared_file_warnings(plan.config);
  if (has_task(plan.config)) {
    plan_task(plan, options.data, log);
    add_warmup_warning(plan);
    return plan;
  }
  Communicator alone;
  const std::optional<Corpus> corpus =
      options.data ? prepare_corpus(plan.config, log, alone) : cached_corpus(plan.config);
  if (corpus) {
    plan.config = fit_model_to_tokenizer(plan.config, *corpus->tokenizer);
    if (options.data) {
      plan.data = report_data(plan.config, *corpus, log);
      plan.sequences = plan.data->train.sequences;
      for (const std::string& line : data_warnings(*plan.data)) plan.warnings.push_back(line);
    } else {
      plan.sequences =
          masked_samples(corpus->train, *corpus->tokenizer, plan.config).packing->size();
    }
    require_warmup_within_run(plan.config, *plan.sequences);
    for (const std::string& line : epoch_warnings(epochs(plan.config, *plan.sequences)))
      plan.warnings.push_back(line);
  }
  plan.parameters = Model(plan.config.model).parameters().count();
  add_warmup_warning(plan);
  return plan;
}

Fit find_fit(const CheckOptions& options, const RunConfig& config) {
  Fit fit;
  fit.devices = options.devices.value_or(1);
  if (!options.memory.empty()) fit.memory = parse_amount("--memory", options.memory);
  const std::int64_t limit = config.training.batch_size / fit.devices;
  require_input(limit > 0,
                "--gpus {}: training.batch_size {} leaves some of them without a sequence",
                fit.devices, config.training.batch_size);
  fit.plan = plan_memory(config, fit.devices);
  if (fit.memory) fit.largest = fit.plan.largest_micro_batch(*fit.memory, limit);
  while (fit.largest.value_or(0) > 0 && config.training.batch_size % *fit.largest != 0)
    --*fit.largest;  // it must divide the batch
  require_input(
      options.speed.empty() || options.bandwidth || fit.devices == 1,
      "--speed with several devices needs --bandwidth, the GB a second in and out of each");
  std::optional<double> speed;
  if (!options.speed.empty()) speed = static_cast<double>(parse_amount("--speed", options.speed));
  if (speed || options.bandwidth)
    fit.time = plan_time(fit.plan, fit.devices, options.bandwidth.value_or(1) * 1e9, speed);
  return fit;
}

/// InputError when the run does not fit.
void require_fit(const Fit& fit, const RunConfig& config) {
  const std::int64_t batch = config.training.micro_batch_size, needed = fit.plan.total(batch);
  if (!fit.memory || needed <= *fit.memory) return;
  const std::string advice =
      *fit.largest > 0
          ? fmt::format("training.micro_batch_size {} is the largest that fits", *fit.largest)
          : "not even one sequence fits: set training.activation_checkpointing: true, "
            "training.zero: 1 or a smaller model";
  throw InputError(fmt::format("the run needs {} on each device, --memory allows {}; {}",
                               memory_text(static_cast<double>(needed)),
                               memory_text(static_cast<double>(*fit.memory)), advice));
}

// ---- For programs -------------------------------------------------------------------------------

Json to_json(const DocumentReport& set) {
  Json left_out = Json::object();
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    const Skipped& skipped = set.text.skipped[i];
    if (skipped.count > 0)
      left_out[describe(static_cast<SkipReason>(i))] = {{"count", skipped.count},
                                                        {"first", skipped.first}};
  }
  return {{"files", set.text.files},
          {"documents_read", set.text.documents},
          {"bytes_read", set.text.bytes},
          {"left_out", left_out},
          {"documents", set.documents},
          {"tokens", set.tokens},
          {"median_tokens_per_document", set.median},
          {"longest_document", set.longest},
          {"documents_cut", set.cut},
          {"remainders_dropped", set.dropped},
          {"unknown_tokens", set.unknown},
          {"sequences", set.sequences}};
}

Json to_json(const Fit& fit, std::int64_t micro_batch) {
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json json = {{"devices", fit.devices}};
  for (const auto& [part, bytes] : bytes_by_part(fit.plan, micro_batch)) json[part] = bytes;
  json["largest_micro_batch_size"] = optional(fit.largest);
  json["communication_seconds"] = fit.time ? Json(fit.time->communication) : Json();
  json["computation_seconds"] = fit.time ? optional(fit.time->computation) : Json();
  json["step_seconds"] = fit.time ? optional(fit.time->step) : Json();
  return json;
}

Json to_json(const Plan& plan) {
  const TrainingConfig& training = plan.config.training;
  const std::int64_t length = plan.config.data.sequence_length;
  Json json = {{"ok", true},
               {"parameters", plan.parameters},
               {"steps", training.steps || plan.sequences
                             ? Json(total_steps(training, plan.sequences.value_or(0)))
                             : Json()},
               {"batch_size", training.batch_size},
               {"sequence_length", length},
               {"max_tokens_per_step", training.batch_size * length},
               {"sequences", plan.sequences ? Json(*plan.sequences) : Json()},
               {"epochs", plan.sequences ? Json(epochs(plan.config, *plan.sequences)) : Json()},
               {"warnings", plan.warnings}};
  if (plan.fit) json["memory"] = to_json(*plan.fit, training.micro_batch_size);
  if (plan.task) json["data"] = describe(*plan.task, plan.config);
  if (!plan.data) return json;
  Json samples = Json::array();
  for (const auto& sample : plan.data->samples) samples.push_back(shown(sample, false));
  json["data"] = {
      {"train", to_json(plan.data->train)},  {"validation", to_json(plan.data->validation)},
      {"duplicates", plan.data->duplicates}, {"overlap", plan.data->overlap},
      {"padding", plan.data->padding},       {"samples", samples}};
  return json;
}

// ---- For people ---------------------------------------------------------------------------------

void print(const DataReport& report) {
  const DocumentReport &a = report.train, &b = report.validation;
  fmt::print("\n{:<40}{:>16}{:>16}\n", "", "training", "validation");
  const auto row = [](const std::string& name, auto x, auto y) {
    fmt::print("{:<40}{:>16}{:>16}\n", name, x, y);
  };
  row("files", a.text.files, b.text.files);
  row("documents read", a.text.documents, b.text.documents);
  row("bytes", a.text.bytes, b.text.bytes);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    const Skipped &x = a.text.skipped[i], &y = b.text.skipped[i];
    if (x.count + y.count > 0)
      row(fmt::format("left out: {}", describe(static_cast<SkipReason>(i))), x.count, y.count);
  }
  row("documents taken", a.documents, b.documents);
  row("tokens", a.tokens, b.tokens);
  row("tokens of a document: median", a.median, b.median);
  row("tokens of a document: longest", a.longest, b.longest);
  row("documents cut into several sequences", a.cut, b.cut);
  row("remainders dropped as too short", a.dropped, b.dropped);
  const auto share = [](const DocumentReport& set) {
    return fmt::format("{:.3f} %",
                       100 * static_cast<double>(set.unknown) / static_cast<double>(set.tokens));
  };
  row("unknown tokens", share(a), share(b));
  row("sequences", a.sequences, b.sequences);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    for (const DocumentReport* set : {&a, &b}) {
      const Skipped& skipped = set->text.skipped[i];
      if (skipped.count > 0)
        fmt::print("first left out as {}: {}\n", describe(static_cast<SkipReason>(i)),
                   skipped.first);
    }
  }
  fmt::print("\npadding: {:.1f} % of a batch\n", 100 * report.padding);
  fmt::print(
      "training documents that repeat another: {}; validation documents found in training: {}\n",
      report.duplicates, report.overlap);
  fmt::print(
      "(equal by a 128-bit hash of their tokens, of which 16 bytes a training document are "
      "held)\n");
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  const char* key = colour ? "\x1b[33mmasked\x1b[0m, \x1b[31mreplaced\x1b[0m, \x1b[32mkept\x1b[0m"
                           : "[word→[MASK]] masked, [word→other] replaced, [word→word] kept";
  fmt::print("\nas the model sees it; original→seen: {}\n", key);
  for (const auto& sample : report.samples) fmt::print("  {}\n", shown(sample, colour));
}

void print(const Fit& fit, const RunConfig& config) {
  for (const std::string& line : describe(fit.plan, config, fit.devices)) fmt::print("{}\n", line);
  if (fit.largest)
    fmt::print("largest micro_batch_size in {}: {}\n",
               memory_text(static_cast<double>(*fit.memory)), *fit.largest);
  if (!fit.time) return;
  if (fit.devices > 1) fmt::print("communication of a step: {:.4g} s\n", fit.time->communication);
  if (!fit.time->step) return;
  fmt::print("computation of a step: {:.4g} s\n", *fit.time->computation);
  const auto tokens = static_cast<double>(config.training.batch_size * config.data.sequence_length);
  fmt::print("a step: {:.4g} s, {:.0f} tokens a second, all sequences at full length\n",
             *fit.time->step, tokens / *fit.time->step);
}

void print(const Plan& plan) {
  const TrainingConfig& training = plan.config.training;
  const std::int64_t length = plan.config.data.sequence_length;
  fmt::print("ok\nparameters: {}\n", plan.parameters);
  const std::string extent = training.steps ? fmt::format("{} steps", *training.steps)
                                            : fmt::format("{} epochs", training.epochs.value_or(1));
  fmt::print("training: {} of {} sequences of at most {} tokens: at most {} tokens a step\n",
             extent, training.batch_size, length, training.batch_size * length);
  if (plan.sequences) {
    fmt::print("data: {} sequences; the run goes over them {:.2f} times\n", *plan.sequences,
               epochs(plan.config, *plan.sequences));
  } else {
    fmt::print("data: not read yet; --data reads and describes it\n");
  }
  if (plan.fit) print(*plan.fit, plan.config);
  if (plan.data) print(*plan.data);
  if (plan.task) {
    for (const std::string& line : describe(*plan.task, plan.config)) fmt::print("{}\n", line);
  }
}

void run(const CheckOptions& options) {
  const Device device = options.common.apply();
  Log log(options.common.quiet);
  try {
    Plan plan = make_plan(options, device, log);
    if (options.asks_for_memory()) plan.fit = find_fit(options, plan.config);
    if (options.json) {
      fmt::print("{}\n", to_json(plan).dump());
    } else {
      print(plan);
      std::fflush(stdout);  // before the warnings
      for (const std::string& line : plan.warnings) log.warn(line);
    }
    if (plan.fit) require_fit(*plan.fit, plan.config);
  } catch (const InputError& error) {
    if (options.json)
      fmt::print("{}\n", Json{{"ok", false}, {"errors", split_lines(error.what())}}.dump());
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
      "step takes; a few small steps run here to find out.\n\n"
      "Examples:\n  nystrom check my.yaml --data\n  nystrom check my.yaml --gpus 8 --memory 80G "
      "--bandwidth 50 --speed 300T");
  command->add_option("CONFIG", options->config, "YAML file of the run")->required();
  command->add_flag(
      "--data", options->data,
      "also report on the data: lengths, padding, unknown tokens, duplicates, masked samples");
  command->add_option("--gpus", options->devices, "devices that share the run, or processes")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--memory", options->memory, "memory of each: 80G, 512M");
  command->add_option("--bandwidth", options->bandwidth, "GB a second in and out of each")
      ->check(CLI::PositiveNumber);
  command->add_option(
      "--speed", options->speed,
      "operations a second that each really does, as nystrom bench finds them: 300T, 400G");
  command->add_flag("--json", options->json, "print one JSON object");
  options->common.add_to(*command);
  return {command, [options] { run(*options); }};
}

}  // namespace nystrom
