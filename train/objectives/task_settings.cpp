#include "train/objectives/task_settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/tasks/bags.h"
#include "data/tasks/encoder.h"
#include "train/config/config_io.h"
#include "train/config/validation.h"

namespace nystrom {
namespace {

/// The labels of the model if its outputs are classes; empty for values.
LabelSet labels_of(const ModelConfig& config, const TaskConfig& task) {
  const bool classes =
      has_labels(*task.kind) || (task.kind == TaskKind::features && config.num_labels() > 1);
  return classes ? LabelSet(config.labels) : LabelSet();
}

/// The task in config.json of an export; null where there is none.
nlohmann::json task_in(const ModelFolder& folder) {
  const nlohmann::json& config = *folder.config_json;
  return config.contains(task_key) ? config.at(task_key) : nlohmann::json();
}

constexpr const char *pairs_key = "pairs", *bags_key = "bags";

/// task_in as overrides of the default settings.
std::vector<std::string> overrides_in(const ModelFolder& folder) {
  const nlohmann::json task = task_in(folder);
  if (task.is_null()) return {};
  using enum TaskKind;
  // Another program may have given the model another head, for which an option says nothing.
  static const std::map<std::string_view, std::vector<TaskKind>> kinds_of = {
      {pairs_key, {classification, regression}},
      {bags_key, {features}},
      {"threshold", {classification}},
      {"windows", {classification, regression}},
      {"stride", {classification, regression, questions}},
      {"no_answer", {questions}},
      {"no_answer_threshold", {questions}},
      {"max_answer_length", {questions}},
      {"whole_words", {questions}},
      {"word_cut", {tokens}}};
  const std::optional<TaskKind> own = task_of(folder.config);
  std::vector<std::string> overrides;
  for (const auto& [name, value] : task.items()) {
    const bool pairs = name == pairs_key, bags = name == bags_key;
    const auto kinds = task.is_object() ? kinds_of.find(name) : kinds_of.end();
    require_input(
        kinds != kinds_of.end() && (pairs || bags ? value.is_boolean() : !value.is_structured()),
        "{}: {}: holds the unknown option {}; export the model again",
        printable_path(folder.path / "config.json"), task_key, printable(name));
    const bool applies = own && std::ranges::find(kinds->second, *own) != kinds->second.end() &&
                         (name != "threshold" || folder.config.multi_label);
    if (!applies || bags) continue;
    if (!pairs)
      overrides.push_back(fmt::format("task.{}={}", name, value.dump()));
    else if (value == true)
      overrides.emplace_back("task.columns.pair=pair");
  }
  return overrides;
}

}  // namespace

SplitOverrides::SplitOverrides(const std::vector<std::string>& overrides,
                               const std::vector<std::string>& sections) {
  constexpr std::array of_runs = {
      "data.train",           "data.validation", "data.cache",      "data.validation_fraction",
      "data.length_schedule", "task.train",      "task.validation", "task.validation_fraction"};
  for (const std::string& each : overrides) {
    const std::string section = each.substr(0, each.find_first_of(".="));
    require_input(section == "model" || std::ranges::find(sections, section) != sections.end(),
                  "--set {}: this command takes options of model{}{}", printable(each, 80),
                  sections.empty() ? "" : ", ", fmt::join(sections, ", "));
    const std::set<std::string> options = options_in(std::span(&each, 1));
    for (const char* option : of_runs)
      require_input(!options.contains(option),
                    "--set {}: {} is for runs, and this command reads the files that it is given; "
                    "leave it out",
                    printable(each, 80), option);
    (section == "model" ? model : run).push_back(each);
  }
}

void SplitOverrides::require_text(const std::vector<std::string>& text) const {
  require_input(!text.empty() || run.empty(),
                "--set {}: says how --text is read; give --text, or leave it out",
                printable(fmt::format("{}", fmt::join(run, " ")), 80));
}

std::optional<TaskKind> task_of(const ModelConfig& config) {
  switch (config.head) {
    case Head::sequence_classification:
      if (config.embed_dim) return TaskKind::features;
      return config.num_labels() == 1 && !config.multi_label ? TaskKind::regression
                                                             : TaskKind::classification;
    case Head::token_classification: return TaskKind::tokens;
    case Head::question_answering: return TaskKind::questions;
    case Head::multiple_choice: return TaskKind::choice;
    case Head::masked_lm:
    case Head::replaced_tokens:
    case Head::masked_features:
    case Head::none: break;
  }
  return std::nullopt;
}

nlohmann::ordered_json kept_task(const ModelFolder& folder) {
  nlohmann::ordered_json kept = nlohmann::ordered_json::object();
  RunConfig settings;
  try {
    settings = settings_of(folder, std::nullopt, {});
  } catch (const InputError&) {  // a config.yaml of another program tells nothing of the task
    return kept;
  }
  if (!has_task(settings)) return kept;
  const TaskConfig task = resolve_task(settings.task), usual;
  const TaskKind kind = *task.kind;
  if (kind == TaskKind::classification || kind == TaskKind::regression) {
    if (is_task_described(folder, std::nullopt)) kept[pairs_key] = task.columns.pair.has_value();
    if (*task.multi_label && task.threshold) kept["threshold"] = *task.threshold;
    if (task.windows != usual.windows) kept["windows"] = enum_name(task.windows);
  }
  if (kind == TaskKind::features) kept[bags_key] = learned_bags(task);
  if (kind == TaskKind::questions) {
    if (task.no_answer == true) {
      kept["no_answer"] = true;
      kept["no_answer_threshold"] = task.no_answer_threshold;
    }
    kept["max_answer_length"] = task.max_answer_length;
    if (task.whole_words != usual.whole_words) kept["whole_words"] = task.whole_words;
  }
  if (task.stride) kept["stride"] = *task.stride;
  if (kind == TaskKind::tokens && task.word_cut) kept["word_cut"] = enum_name(*task.word_cut);
  return kept;
}

void require_task_or_text(const ModelFolder& folder) {
  require_input(
      folder.config.head != Head::masked_features,
      "{}: says masked rows of features and does no task; nystrom finetune with model.from "
      "trains one on it",
      printable_path(folder.path));
}

bool is_task_described(const ModelFolder& folder, const std::optional<std::string>& given) {
  return given || settings_beside(folder.path) || task_in(folder).contains(pairs_key);
}

RunConfig settings_of(const ModelFolder& folder, const std::optional<std::string>& given,
                      const std::vector<std::string>& overrides) {
  require_task_or_text(folder);
  RunConfig config;
  const auto beside = settings_beside(folder.path);
  // The overrides are those of the last source: a file that is given, or else the run's.
  const std::vector<std::string> none, &first = given ? none : overrides;
  if (beside) {
    config = read_resolved_config(beside->string(), first);
  } else {
    config.task.kind = task_of(folder.config);
    if (folder.config.multi_label) config.task.multi_label = true;
    config.model = folder.config;
    // With semantics transformers the model has a fixed length, which data.sequence_length need not
    // equal. The folder's model replaces this one below.
    config.model.attention.semantics = Semantics::nystrom;
    config.data.sequence_length = trained_length(folder);
    if (config.task.kind == TaskKind::choice) config.task.columns.choices = {"choices"};
    if (const auto kept = overrides_in(folder); !kept.empty())
      config = with_context(printable_path(folder.path / "config.json"),
                            [&] { return override_config(config, "default settings", kept); });
    config = override_config(config, "default settings", first);
  }
  if (given) {
    config.tokenizer = {};  // what the file says of it excludes what the run says
    config = read_config_over(std::move(config), *given, overrides);
  }
  config.model = folder.config;
  if (!beside)
    if (const auto kept = task_in(folder); kept.contains(bags_key))
      config.task.learned_bags = kept.at(bags_key) == true;
  const std::set<std::string> options =
      options_in(overrides, given ? config_file(*given) : ConfigText{});
  if (options.contains("data.text_column") && !options.contains("task.columns.text"))
    config.task.columns.text = config.data.text_column;
  return config;
}

RunConfig masked_lm_settings(const ModelFolder& folder, const std::vector<std::string>& overrides) {
  const auto longest = folder.config.longest_sequence();
  const RunConfig config = settings_of(folder, std::nullopt, overrides);
  const std::int64_t length = config.data.sequence_length;
  require_input(!longest || length <= *longest,
                "data.sequence_length {} is more than the {} tokens that the model takes; --set "
                "data.sequence_length={}",
                length, longest.value_or(0), longest.value_or(0));
  const auto fixed = config.model.fixed_length();
  require_input(!fixed || length == *fixed,
                "data.sequence_length {}: with attention.semantics transformers this model takes "
                "only {}; --set data.sequence_length={}, or "
                "--set model.attention.semantics=nystrom",
                length, fixed.value_or(0), fixed.value_or(0));
  return config;
}

TaskModel open_task(const ModelFolder& folder, RunConfig settings) {
  const std::string where = printable_path(folder.path);
  require_input(
      has_task(settings),
      "{}: is a {}, which has no head for a task; nystrom finetune with model.from trains "
      "one, and nystrom embed computes vectors{}",
      where, enum_name(folder.config.head), classifier_remark(folder.path));
  require_input(
      resolve_task(settings.task).kind != TaskKind::embeddings,
      "{}: is a model of vectors; nystrom embed computes them, and nystrom evaluate --pairs "
      "or --retrieval measures them",
      where);
  // Only labels that the user gave must equal the model's; resolve_task adds those of a recipe.
  // Of tags the order is the data's, which numbers stand for.
  const std::vector<std::string> given_labels = settings.task.labels;
  settings.task = resolve_task(settings.task);
  TaskModel result;
  const TaskConfig& task = settings.task;
  require_input(task_of(folder.config) == task.kind,
                "{}: is a {} for {}, but task.kind is {}; change it, or choose another model",
                where, enum_name(folder.config.head),
                task_of(folder.config) ? enum_name(*task_of(folder.config)) : "no task",
                enum_name(*task.kind));
  require_input(folder.config.multi_label == *task.multi_label,
                "{}: gives a text {}, but task.multi_label is {}; change it, or choose another "
                "model",
                where, folder.config.multi_label ? "any number of labels" : "one label",
                *task.multi_label);
  LabelSet labels = with_context(printable_path(folder.path / "config.json") + ": id2label",
                                 [&] { return labels_of(folder.config, task); });
  if (labels.size() > 0 && stand_for(labels.names(), task.labels)) labels = LabelSet(task.labels);
  require_input(!task.columns.pair || task.columns.pair != named_columns(task).text,
                "task.columns.text and task.columns.pair are both '{}'; each needs a column of its "
                "own",
                printable(task.columns.pair.value_or("")));
  const std::vector<std::string>& columns = task.columns.labels;
  require_input(columns.empty() || std::ssize(columns) == labels.size(),
                "{}: its {}, but task.columns.labels names {} columns; give one for each", where,
                describe(labels), columns.size());
  const bool same = task.kind == TaskKind::tokens
                        ? std::ranges::is_permutation(given_labels, labels.names())
                        : given_labels == labels.names();
  require_input(given_labels.empty() || labels.size() == 0 || same,
                "{}: its {}, but task.{}; leave task.labels out, or choose another model", where,
                describe(labels), describe(LabelSet(given_labels)));
  if (task.kind != TaskKind::features) result.tokenizer = require_tokenizer_of(folder);
  result.reader = std::make_unique<TaskReader>(task, labels, result.tokenizer, folder.config,
                                               settings.data.sequence_length);
  result.settings = std::move(settings);
  return result;
}

TaskModel open_task_model(const ModelFolder& folder, RunConfig settings, DType dtype,
                          Device device) {
  TaskModel result = open_task(folder, std::move(settings));
  result.model = load_model(folder, dtype, StoreMode::inference, device);
  return result;
}

}  // namespace nystrom
