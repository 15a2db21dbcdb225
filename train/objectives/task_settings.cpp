#include "train/objectives/task_settings.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "train/config/config_io.h"

namespace nystrom {
namespace {

/// The labels of the model if its outputs are classes; empty for values.
LabelSet labels_of(const ModelConfig& config, const TaskConfig& task) {
  const bool classes =
      has_labels(*task.kind) || (task.kind == TaskKind::features && config.num_labels() > 1);
  return classes ? LabelSet(config.labels) : LabelSet();
}

/// The file with the settings of a folder's training; it may not exist.
std::filesystem::path described_in(const ModelFolder& folder) {
  return folder.path / "config.yaml";
}

/// How raw text is cut, as config.json of an export says.
std::optional<WordCut> word_cut_in(const ModelFolder& folder) {
  const std::filesystem::path file = folder.path / "config.json";
  const nlohmann::json config = read_json_file(file);
  const auto given = config.find(word_cut_key);
  if (given == config.end()) return std::nullopt;
  std::vector<std::string> known;
  for (const auto& [cut, name] : enum_names(WordCut{})) {
    if (*given == name) return cut;
    known.emplace_back(name);
  }
  throw InputError(fmt::format("{}: {}: expected one of {}, got {}", printable_path(file),
                               word_cut_key, fmt::join(known, ", "), printable(given->dump())));
}

}  // namespace

SplitOverrides::SplitOverrides(const std::vector<std::string>& overrides,
                               const std::vector<std::string>& sections) {
  for (const std::string& each : overrides) {
    const std::string section = each.substr(0, each.find_first_of(".="));
    require_input(section == "model" || std::ranges::find(sections, section) != sections.end(),
                  "--set {}: this command takes options of model, {}", printable(each, 80),
                  fmt::join(sections, ", "));
    (section == "model" ? model : run).push_back(each);
  }
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

void require_task_or_text(const ModelFolder& folder) {
  require_input(
      folder.config.head != Head::masked_features,
      "{}: says masked rows of features and does no task; nystrom finetune with model.from "
      "trains one on it",
      printable_path(folder.path));
}

bool is_task_described(const ModelFolder& folder, const std::optional<std::string>& given) {
  return given || std::filesystem::exists(described_in(folder));
}

RunConfig settings_of(const ModelFolder& folder, const std::optional<std::string>& given,
                      const std::vector<std::string>& overrides) {
  require_task_or_text(folder);
  RunConfig config;
  if (is_task_described(folder, given)) {
    config = read_resolved_config(given ? *given : described_in(folder).string(), overrides);
  } else {
    config.task.kind = task_of(folder.config);
    if (folder.config.multi_label) config.task.multi_label = true;
    if (config.task.kind == TaskKind::tokens) config.task.word_cut = word_cut_in(folder);
    config.model = folder.config;
    // With semantics transformers the model has a fixed length, which data.sequence_length need not
    // equal. The folder's model replaces this one below.
    config.model.attention.semantics = Semantics::nystrom;
    config.data.sequence_length = trained_length(folder);
    config.task.stride = std::min(config.task.stride, config.data.sequence_length / 4);
    if (config.task.kind == TaskKind::choice) config.task.columns.choices = {"choices"};
    config = override_config(config, "default settings", overrides);
  }
  config.model = folder.config;
  const auto sets = [&](std::string_view option) {
    return std::ranges::any_of(overrides,
                               [&](std::string_view each) { return each.starts_with(option); });
  };
  if (sets("data.text_column=") && !sets("task.columns.text="))
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
  require_input(has_task(settings),
                "{}: is a {}, and no task is known; name one: --set task.kind=classification",
                where, enum_name(folder.config.head));
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
  const LabelSet labels = labels_of(folder.config, task);
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
  result.model = load_model(folder.path, folder.config, dtype, StoreMode::inference, device);
  return result;
}

}  // namespace nystrom
