// nystrom check: report all errors of a configuration, and optionally of its data, before a run
// starts.
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/bags.h"
#include "nn/model.h"
#include "train/cli/commands.h"
#include "train/config/validation.h"
#include "train/loop/run_memory.h"
#include "train/loop/trained_model.h"
#include "train/loop/trainer.h"
#include "train/objectives/corpus_statistics.h"
#include "train/objectives/embedding_objective.h"
#include "train/objectives/evaluation.h"
#include "train/objectives/finetune.h"
#include "train/objectives/pretrain.h"
#include "train/plan/memory_plan.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

struct CheckOptions {
  CommonOptions common;
  std::string config;
  bool data = false, pretraining = false;
  std::optional<int> devices;
  std::string memory;
  std::optional<double> bandwidth;
  std::string speed;

  /// Whether the run is planned for other machines than this one.
  bool plans_elsewhere() const { return devices || !memory.empty() || bandwidth || !speed.empty(); }
};

/// The memory that a run needs, and the duration of its steps.
struct Fit {
  MemoryPlan plan;
  int devices = 1;
  bool elsewhere = false;               // whether `memory` is that of --memory, not of this machine
  std::optional<std::int64_t> memory;   // bytes that there are, if known
  std::optional<std::int64_t> largest;  // micro-batch that fits into them
  std::optional<StepTime> time;
};

/// The facts about a planned run.
struct CheckReport {
  RunConfig config;
  std::int64_t parameters = 0;
  bool vocabulary_unknown = false;        // the tokenizer decides it: the numbers are the most
  bool labels_unknown = false;            // the files tell them: the numbers are for two
  std::optional<std::int64_t> sequences;  // of the training data; unknown before tokenization
  double passes = 0;                      // over them
  std::optional<CorpusStatistics> data;
  Lines task;  // what the task's data is like; empty if it was not read
  std::optional<Fit> fit;
  std::int64_t longest_bag = 0;  // rows; 0 without --data or bags
  Lines warnings;
  std::optional<ModelConfig> teacher;

  void warn(const Lines& more) { warnings.insert(warnings.end(), more.begin(), more.end()); }
};

// ---- The facts ----------------------------------------------------------------------------------

/// Reads the first example of the files that `patterns` match: enough to see missing columns.
std::optional<Example> read_first_example(const TaskConfig& task,
                                          const std::vector<std::string>& patterns) {
  std::optional<Example> first;
  const auto pass_over = [&](const BadRow&) {
    if (task.bad_rows != BadRows::skip) throw;
  };
  read_examples(
      task, patterns, needed_labels(task), [&](Example&& example) { first = std::move(example); },
      pass_over, /*most=*/1);
  return first;
}

/// Checks the files of a task, and reads no more than one good example of each set.
void check_task_files(const TaskConfig& given, ResolutionErrors& errors) {
  const TaskConfig task = resolve_task(given);
  const bool readable = task.kind != TaskKind::features;
  for (const auto& [option, patterns] :
       {std::pair("task.train", &task.train), std::pair("task.validation", &task.validation)}) {
    if (patterns->empty()) continue;  // task.validation_fraction
    if (patterns == &task.validation && validates_by_retrieval(task))
      errors.note(option, [&] { read_validation_folder(task); });
    else if (readable)
      errors.note(option, [&, files = patterns] { read_first_example(task, *files); });
  }
  if (errors.empty()) errors.note("", [&] { require_read_columns(task); });
}

/// Resolves the run. Throws one InputError with all errors, one per line, if there are any.
RunSpec resolve_sound(const CheckOptions& options, Device device) {
  ResolutionErrors errors(printable(options.config));
  RunSpec spec = read_run(config_file(options.config), options.common.overrides, errors);
  if (errors.empty()) {
    const bool task = has_task(spec.options) && !options.pretraining;
    spec = resolve(std::move(spec), task ? RunKind::finetuning : RunKind::pretraining, errors);
    if (task || spec.inputs) check_task_files(task ? spec.options.task : *spec.inputs, errors);
    if (options.devices)
      errors.note("", [&] { require_work_for_all(spec.options, *options.devices); });
  }
  if (!options.plans_elsewhere()) {
    errors.note("", [&] { require_startable(spec.options.run_dir); });
    errors.note("", [&] { require_computable(spec.options, device); });
    if (errors.empty())
      errors.note("", [&] { require_memory(spec.options, device, 1, spec.teacher_shape()); });
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

/// Warns that tokens, memory and time are not those of the bags, whose length is not known.
void add_bags_warning(CheckReport& report, const RunSpec& spec) {
  const bool has_labels = has_task(spec.options);
  if (!has_labels && !reads_features(spec.options)) return;
  const TaskConfig task = has_labels ? resolve_task(spec.options.task) : *spec.inputs;
  if (task.kind == TaskKind::features &&
      hold_bags(task, has_labels ? Labelled::required : Labelled::for_parts))
    report.warnings.push_back(
        fmt::format("bags are read whole: what is planned is for {} rows (data.sequence_length), "
                    "with --data for the longest bag",
                    report.config.data.sequence_length));
}

/// Reads every number of a set's bags, which must be finite.
void read_bags(CheckReport& report, const TaskDataset& set) {
  if (set.has_bags()) report.longest_bag = std::max(report.longest_bag, set.counts().longest);
  for (std::int64_t i = 0; set.has_bags() && i < set.size(); ++i) {
    const BagFile& bag = set.bag(i);
    bag.read(Tensor::empty({bag.rows(), bag.width()}, DType::f32));
  }
}

/// Reads the features of a pretraining run.
void read_features(CheckReport& report, const RunSpec& spec) {
  const FeatureSets sets = open_features(spec);
  for (const auto& set : {sets.train, sets.validation}) read_bags(report, *set);
  report.task = describe(sets, report.config.data.sequence_length);
  report.warn(feature_warnings(sets, report.config.training));
  report.sequences = sets.train->size();
  require_schedules_within_run(report.config, *report.sequences);
  require_same_data(spec, run_data(sets));
}

/// Gives the plan as many columns of choices as an example has: of a list in one column it would
/// know no number. All examples have as many as the first.
void count_choices(CheckReport& report) {
  const TaskConfig task = resolve_task(report.config.task);
  if (task.kind != TaskKind::choice) return;
  if (const auto first = read_first_example(task, task.train))
    report.config.task.columns.choices.resize(first->choices.size());
}

/// Reads the data of a task, which completes the configuration of the plan.
void read_task(CheckReport& report, const RunSpec& spec) {
  if (spec.options.task.kind == TaskKind::embeddings) {
    RunSpec complete = spec;
    const EmbeddingData data = read_embedding_data(complete.options, spec.tokenizer);
    report.task = describe(data);
    report.warn(embedding_warnings(data));
    report.sequences = std::ssize(data.train->content().samples);
    require_same_run(complete);
    require_same_data(complete, run_data(data));
    report.config = std::move(complete.options);
    return;
  }
  PreparedTask task = prepare_task(spec);
  require_same_data(task.spec, run_data(task));
  for (const auto& part : {task.train, task.validation, task.test})
    if (part) read_bags(report, *part);
  const TaskStatistics statistics = task_statistics(*task.train, *task.validation);
  report.warn(run_warnings(task, statistics));
  report.config = std::move(task.spec.options);
  report.task = describe(statistics, report.config);
  report.sequences = task.train->size();
}

/// Reads the data of pretraining, or the tokens in the cache, and completes the configuration.
void read_corpus(CheckReport& report, const RunSpec& spec, bool data, Log& log) {
  Communicator alone;
  std::optional<Corpus> corpus;
  if (data)
    corpus = prepare_corpus(spec, log, alone);
  else if (!spec.inputs)
    corpus = cached_corpus(spec, log);
  report.vocabulary_unknown = !corpus && !spec.tokenizer &&
                              spec.options.vocab_size_from_tokenizer &&
                              !spec.options.tokenizer.train.vocab_size;
  if (!corpus) return;
  const RunSpec complete = with_tokenizer(spec, corpus->tokenizer);
  report.config = complete.options;
  if (data) {
    for (const auto* sources : {&corpus->train, &corpus->validation})
      for (const CorpusSource& source : *sources) source.tokens->verify();
    warn_of_unknown(*corpus, log);
    if (spec.saved.has_checkpoints)
      require_same_data(complete, run_data(*corpus, load_teacher(spec, cpu_device).get()));
    report.data = corpus_statistics(report.config, *corpus, log);
    report.sequences = report.data->train.sequences;
    report.warn(data_warnings(*report.data));
  } else {
    report.sequences = 0;
    for (const auto& source : masked_sources(corpus->train, *corpus->tokenizer, report.config))
      *report.sequences += source.packing->size();
    masked_sources(corpus->validation, *corpus->tokenizer, report.config);  // refuses as a run does
  }
  require_schedules_within_run(report.config, *report.sequences);
  report.passes = passes_over(*corpus, *report.sequences, report.config);
  report.warn(epoch_warnings(report.passes));
}

CheckReport make_report(const CheckOptions& options, Device device, Log& log) {
  const RunSpec spec = resolve_sound(options, device);
  CheckReport report;
  report.config = spec.options;
  report.teacher = spec.teacher_shape();
  report.warnings = shared_file_warnings(report.config);
  if (const std::string changed = spec.saved.has_checkpoints ? "" : changed_computation(spec);
      !changed.empty())
    report.warnings.push_back("model.from: " + changed);
  const bool features = reads_features(report.config), task = has_task(report.config);
  if (!task && !features)
    read_corpus(report, spec, options.data, log);
  else if (options.data && features)
    read_features(report, spec);
  else if (options.data)
    read_task(report, spec);
  if (task) count_choices(report);
  if ((task || features) && report.sequences) {
    const TrainingConfig& training = report.config.training;
    const std::int64_t drawn = total_steps(training, *report.sequences) * training.batch_size;
    report.passes = static_cast<double>(drawn) / static_cast<double>(*report.sequences);
  }
  const RunConfig labelled = with_labels(report.config);
  report.labels_unknown = lists_labels(labelled);
  report.parameters = Model(labelled.model).parameters().count();
  add_warmup_warning(report);
  // Bags are read whole, whatever data.sequence_length is.
  if (report.longest_bag > 0) report.config.data.sequence_length = report.longest_bag;
  if (!options.data) add_bags_warning(report, spec);
  return report;
}

Fit find_fit(const CheckOptions& options, const RunConfig& config,
             const std::optional<ModelConfig>& teacher) {
  Fit fit;
  fit.devices = options.devices.value_or(1);
  fit.elsewhere = options.plans_elsewhere();
  if (!options.memory.empty()) fit.memory = parse_amount("--memory", options.memory);
  if (!fit.elsewhere && machine_memory() > 0) fit.memory = machine_memory();
  const std::int64_t batch = config.training.batch_size;
  fit.plan = plan_memory(config, fit.devices, teacher);
  if (fit.memory) fit.largest = fit.plan.largest_micro_batch(*fit.memory, batch / fit.devices);
  while (fit.largest.value_or(0) > 0 && batch % *fit.largest != 0)
    --*fit.largest;  // a micro-batch must divide the batch
  require_input(
      options.speed.empty() || options.bandwidth || fit.devices == 1,
      "--speed with several devices needs --bandwidth, the GB a second in and out of each");
  require_input(!options.bandwidth || options.devices,
                "--bandwidth is between several devices; give their number by --gpus");
  require_input(!options.bandwidth || (*options.bandwidth > 0 && std::isfinite(*options.bandwidth)),
                "--bandwidth {}: expected a number greater than 0", options.bandwidth.value_or(0));
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

// ---- Output as JSON -----------------------------------------------------------------------------

Json to_json(const DocumentStatistics& set) {
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

Json stages_json(const RunConfig& config) {
  Json stages = Json::array();
  for (const Stage& stage : stages_of(config))
    stages.push_back({{"steps_before", stage.begin},
                      {"sequence_length", stage.length},
                      {"sequences", stage.sequences}});
  return stages;
}

Json to_json(const CheckReport& report) {
  const TrainingConfig& training = report.config.training;
  const std::int64_t length = report.config.data.sequence_length;
  Json json = {
      {"ok", true},
      {"parameters", report.parameters},
      {"vocabulary_unknown", report.vocabulary_unknown},
      {"labels_unknown", report.labels_unknown},
      {"steps", training.steps || report.sequences
                    ? Json(total_steps(training, report.sequences.value_or(0)))
                    : Json()},
      {"batch_size", training.batch_size},
      {"sequence_length", length},
      {"max_tokens_per_step", training.batch_size * sequences_of_sample(report.config) * length},
      {"stages", stages_json(report.config)},
      {"sequences", report.sequences ? Json(*report.sequences) : Json()},
      {"epochs", report.sequences ? Json(report.passes) : Json()},
      {"warnings", report.warnings}};
  if (report.fit) json["memory"] = to_json(*report.fit, training.micro_batch_size);
  if (!report.task.empty()) json["data"] = report.task;
  if (!report.data) return json;
  Json sources = Json::array(), samples = Json::array();
  for (const SourceStatistics& source : report.data->sources)
    sources.push_back({{"name", source.name},
                       {"documents", source.documents},
                       {"tokens", source.tokens},
                       {"sequences", source.sequences},
                       {"share", source.share},
                       {"passes", source.passes}});
  for (const auto& sample : report.data->samples) samples.push_back(shown(sample, false));
  json["data"] = {{"train", to_json(report.data->train)},
                  {"validation", to_json(report.data->validation)},
                  {"duplicates", report.data->duplicates},
                  {"overlap", report.data->overlap},
                  {"padding", report.data->padding},
                  {"samples", samples},
                  {"unit_tokens", report.data->unit_tokens},
                  {"units", report.data->units},
                  {"sources", sources}};
  return json;
}

// ---- Output as text -----------------------------------------------------------------------------

void print(const CorpusStatistics& statistics) {
  const DocumentStatistics &a = statistics.train, &b = statistics.validation;
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
  const auto share = [](const DocumentStatistics& set) {
    return fmt::format("{:.3f} %",
                       100 * static_cast<double>(set.unknown) / static_cast<double>(set.tokens));
  };
  row("unknown tokens", share(a), share(b));
  row("sequences", a.sequences, b.sequences);
  for (std::size_t i = 0; i < skip_reasons; ++i) {
    for (const DocumentStatistics* set : {&a, &b}) {
      const Skipped& skipped = set->text.skipped[i];
      if (skipped.count > 0)
        fmt::print("first left out as {}: {}\n", describe(static_cast<SkipReason>(i)),
                   skipped.first);
    }
  }
  if (!statistics.sources.empty())
    fmt::print("\n{:<24}{:>16}{:>16}{:>12}{:>10}{:>10}\n", "source", "documents", "tokens",
               "sequences", "share", "passes");
  for (const SourceStatistics& source : statistics.sources)
    fmt::print("{:<24}{:>16}{:>16}{:>12}{:>8.1f} %{:>10.2f}\n", source.name, source.documents,
               source.tokens, source.sequences, 100 * source.share, source.passes);
  fmt::print("\nno token: {:.1f} % of the places of a step\n", 100 * statistics.padding);
  if (statistics.unit_tokens > 0)
    fmt::print("whole words: {:.1f} tokens on average, at most {}; the first ones: {}\n",
               statistics.unit_tokens, max_word_tokens, fmt::join(statistics.units, " · "));
  fmt::print(
      "training documents that repeat another: {}; validation documents found in training: {}\n",
      statistics.duplicates, statistics.overlap);
  fmt::print(
      "(equal by a 128-bit hash of their tokens, of which 16 bytes a training document are "
      "held)\n");
  const char* const no_colour = std::getenv("NO_COLOR");
  const bool colour = is_terminal(STDOUT_FILENO) && (!no_colour || *no_colour == '\0');
  const char* key = colour ? "\x1b[33mmasked\x1b[0m, \x1b[31mreplaced\x1b[0m, \x1b[32mkept\x1b[0m"
                           : "[word→[MASK]] masked, [word→other] replaced, [word→word] kept";
  fmt::print("\nas the model sees it; original→seen: {}\n", key);
  for (const auto& sample : statistics.samples) fmt::print("  {}\n", shown(sample, colour));
}

void print(const Fit& fit, const RunConfig& config) {
  if (!fit.elsewhere) {
    const auto needed = static_cast<double>(fit.plan.total(config.training.micro_batch_size));
    fmt::print("memory: {} of this machine's {}\n", memory_text(needed),
               memory_text(static_cast<double>(fit.memory.value_or(0))));
    return;
  }
  for (const std::string& line : describe(fit.plan, config, fit.devices)) fmt::print("{}\n", line);
  if (fit.largest)
    fmt::print("largest micro_batch_size in {}: {}\n",
               memory_text(static_cast<double>(*fit.memory)), *fit.largest);
  if (!fit.time) return;
  if (fit.devices > 1) fmt::print("communication of a step: {:.4g} s\n", fit.time->communication);
  if (!fit.time->step) return;
  fmt::print("computation of a step: {:.4g} s\n", *fit.time->computation);
  const auto tokens = static_cast<double>(config.training.batch_size * sequences_of_sample(config) *
                                          config.data.sequence_length);
  if (*fit.time->step > 0)  // an encoder without layers alone computes nothing that counts
    fmt::print("a step: {:.4g} s, {:.0f} tokens a second, all sequences at full length\n",
               *fit.time->step, tokens / *fit.time->step);
}

void print(const CheckReport& report) {
  const TrainingConfig& training = report.config.training;
  const std::int64_t length = report.config.data.sequence_length,
                     sequences = training.batch_size * sequences_of_sample(report.config);
  fmt::print("ok\nparameters: {}{}\n", report.parameters,
             report.vocabulary_unknown ? " at most; the tokenizer is not trained yet"
             : report.labels_unknown   ? " for two labels; --data counts those of the files"
                                       : "");
  const std::string extent = training.steps ? fmt::format("{} steps", *training.steps)
                                            : fmt::format("{} epochs", training.epochs.value_or(1));
  fmt::print("training: {} of {} sequences of at most {} tokens: at most {} tokens a step\n",
             extent, sequences, length, sequences * length);
  const std::vector<Stage> stages = stages_of(report.config);
  for (std::size_t i = 0; stages.size() > 1 && i < stages.size(); ++i)
    fmt::print("  from step {}: {} sequences of at most {} tokens\n", stages[i].begin + 1,
               stages[i].sequences, stages[i].length);
  const auto& masks = report.config.masking.probability.points;  // straight lines between them
  for (std::size_t i = 0; masks.size() > 1 && i < masks.size(); ++i) {
    const auto& [step, share] = masks[i];
    const auto begin = number_of<std::int64_t>(step);
    fmt::print("  {}: {:.4g} % masked\n",
               begin ? fmt::format("at step {}", *begin + 1) : "at the end", 100 * share);
  }
  if (report.sequences) {
    fmt::print("data: {} sequences; the run goes over them {:.2f} times\n", *report.sequences,
               report.passes);
  } else {
    fmt::print("data: not read yet; --data reads and describes it\n");
  }
  if (report.fit) print(*report.fit, report.config);
  if (report.data) print(*report.data);
  for (const std::string& line : report.task) fmt::print("{}\n", line);
}

// ---- The command --------------------------------------------------------------------------------

void run(const CheckOptions& options, Device device, Log& log) {
  Lines told;  // by the readers of files
  try {
    Log collected(/*quiet=*/true, [&](const std::string& line) {
      told.push_back(line.substr(line.starts_with(warning_mark) ? warning_mark.size() : 0));
    });
    CheckReport report = make_report(options, device, options.common.json ? collected : log);
    report.warnings.insert(report.warnings.begin(), told.begin(), told.end());
    if (options.plans_elsewhere() || device.is_cpu())
      report.fit = find_fit(options, report.config, report.teacher);
    if (report.fit) require_fit(*report.fit, report.config);
    if (options.common.json) {
      fmt::print("{}\n", to_json(report).dump());
    } else {
      print(report);
      std::fflush(stdout);  // the report appears before the warnings
      for (const std::string& line : report.warnings) log.warn(line);
    }
  } catch (const InputError& error) {
    Json errors = Json::array();
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) errors.push_back(line);
    Json result{{"ok", false}, {"errors", errors}};
    if (!told.empty()) result["warnings"] = told;
    if (options.common.json) fmt::print("{}\n", result.dump());
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
  command->add_flag("--pretraining", options->pretraining,
                    "check the run that nystrom pretrain makes of the inputs of a task");
  command->add_option("--gpus", options->devices, "devices that share the run, or processes")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--memory", options->memory, "memory of each: 80G, 512M");
  command->add_option("--bandwidth", options->bandwidth, "GB per second in and out of each");
  command->add_option(
      "--speed", options->speed,
      "operations per second that each achieves, as nystrom bench measures: 300T, 400G");
  options->common.add_to(*command, {.json = "one JSON object"});
  return alone(command, options, run);
}

}  // namespace nystrom
