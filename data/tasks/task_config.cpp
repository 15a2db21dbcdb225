#include "data/tasks/task_config.h"

#include <filesystem>

#include "data/tasks/example_files.h"

namespace nystrom {

namespace {

struct Recipe {
  const char* name;
  TaskKind kind;
  TaskFormat format;
  bool header;
  std::optional<std::string> text, pair, label;  // columns
  std::vector<std::string> labels;               // Hugging Face's order
  TaskMetric metric;
  BadRows bad_rows = BadRows::stop;
};

/// The files of GLUE (Wang et al., ICLR 2019) as downloaded, of IMDB (Maas et al., ACL 2011), of
/// TREC (Li & Roth, COLING 2002), and of Long Range Arena (Tay et al., ICLR 2021).
const std::vector<Recipe>& recipes() {
  using enum TaskKind;
  using enum TaskFormat;
  using enum TaskMetric;
  const std::vector<std::string> binary{"0", "1"}, entailment{"entailment", "not_entailment"},
      three{"entailment", "neutral", "contradiction"},
      digits{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  constexpr BadRows skip = BadRows::skip;  // some rows are cut, and some images empty
  static const std::vector<Recipe> all{
      {"sst2", classification, tsv, true, "sentence", {}, "label", binary, accuracy},
      {"cola", classification, tsv, false, "4", {}, "2", binary, matthews},
      {"mrpc", classification, tsv, true, "#1 String", "#2 String", "Quality", binary, f1},
      {"stsb", regression, tsv, true, "sentence1", "sentence2", "score", {}, pearson},
      {"qqp", classification, tsv, true, "question1", "question2", "is_duplicate", binary, f1,
       skip},
      {"mnli", classification, tsv, true, "sentence1", "sentence2", "gold_label", three, accuracy},
      {"qnli", classification, tsv, true, "question", "sentence", "label", entailment, accuracy},
      {"rte", classification, tsv, true, "sentence1", "sentence2", "label", entailment, accuracy},
      {"imdb", classification, folders, true, {}, {}, {}, {"neg", "pos"}, accuracy},
      {"trec", classification, tsv, true, "text", {}, "coarse", {}, accuracy},
      {"listops", classification, tsv, true, "Source", {}, "Target", digits, accuracy},
      {"aan", classification, tsv, false, "4", "5", "1", {}, accuracy},
      {"cifar10", classification, cifar10, true, {}, {}, {}, cifar10_classes(), accuracy},
      {"pathfinder", classification, pathfinder, true, {}, {}, {}, binary, accuracy, skip}};
  return all;
}

const Recipe* find_recipe(const TaskConfig& task) {
  for (const Recipe& recipe : recipes())
    if (task.recipe == recipe.name) return &recipe;
  return nullptr;
}

}  // namespace

std::vector<std::string> task_recipes() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.emplace_back(recipe.name);
  return names;
}

TaskConfig resolve_task(TaskConfig task) {
  const auto fill = [](auto& option, const auto& value) {
    if (!option) option = value;
  };
  if (const Recipe* recipe = find_recipe(task)) {
    fill(task.kind, recipe->kind);
    fill(task.format, recipe->format);
    fill(task.header, recipe->header);
    fill(task.columns.text, recipe->text);
    fill(task.columns.pair, recipe->pair);
    fill(task.columns.label, recipe->label);
    if (task.columns.label == recipe->label && task.labels.empty()) task.labels = recipe->labels;
    fill(task.metric, recipe->metric);
    fill(task.bad_rows, recipe->bad_rows);
  }
  if (task.kind == TaskKind::classification && !task.train.empty() &&
      std::filesystem::is_directory(task.train[0]))
    fill(task.format, TaskFormat::folders);
  fill(task.header, true);
  fill(task.multi_label, task.label_separator || !task.columns.labels.empty());
  if (task.labels.empty() && *task.header) task.labels = task.columns.labels;
  // The files of features and embeddings decide what can be measured.
  const bool by_files = task.kind == TaskKind::features || task.kind == TaskKind::embeddings;
  if (task.kind && !by_files) fill(task.metric, metrics_of(task)[0]);
  fill(task.bad_rows, BadRows::stop);
  fill(task.no_answer, false);
  return task;
}

TaskColumns named_columns(const TaskConfig& task) {
  const bool words = task.kind == TaskKind::tokens, questions = task.kind == TaskKind::questions;
  TaskColumns columns = task.columns;
  if (task.kind == TaskKind::features) {
    if (task.features_folder && !columns.id) columns.id = "id";
    if (!task.features_folder && !columns.file) columns.file = "file";
    if (!columns.value && !columns.label) columns.label = "label";
    return columns;
  }
  if (!columns.text) columns.text = questions ? "question" : words ? "tokens" : "text";
  if (!columns.pair && questions) columns.pair = "context";
  if (!columns.label && columns.labels.empty() && task.kind != TaskKind::embeddings)
    columns.label = words ? "tags" : questions ? "answers" : "label";
  return columns;
}

bool holds_images(std::optional<TaskFormat> format) {
  return format == TaskFormat::cifar10 || format == TaskFormat::pathfinder;
}

std::vector<TaskFormat> formats_of(TaskKind kind) {
  using enum TaskFormat;
  switch (kind) {
    case TaskKind::classification:
      return {tsv, csv, jsonl, json, folders, lines, documents, cifar10, pathfinder};
    case TaskKind::regression: return {tsv, csv, jsonl, json, lines, documents};
    case TaskKind::tokens: return {conll, jsonl, json, lines};
    case TaskKind::questions: return {squad, tsv, csv, jsonl, json};
    case TaskKind::choice: return {tsv, csv, jsonl, json};
    case TaskKind::features: return {hdf5, tsv, csv, jsonl, json};
    case TaskKind::embeddings: return {tsv, csv, jsonl, json, lines, documents};
  }
  return {};
}

bool has_folds(const TaskConfig& task) { return task.folds || !task.splits.empty(); }

bool has_labels(TaskKind kind) {
  return kind == TaskKind::classification || kind == TaskKind::tokens;
}

std::vector<TaskMetric> metrics_of(const TaskConfig& task) {
  using enum TaskMetric;
  switch (*task.kind) {
    case TaskKind::classification:
      if (task.multi_label == true)
        return {f1_micro, f1_macro, mean_average_precision, exact_match, loss};
      return {accuracy, f1, f1_macro, matthews, auc, balanced_accuracy, kappa, loss};
    case TaskKind::regression: return {pearson, spearman, loss};
    case TaskKind::tokens: return {f1, accuracy};
    case TaskKind::questions: return {f1, exact_match};
    case TaskKind::choice: return {accuracy};
    case TaskKind::features:
      return {accuracy,          f1,    f1_macro, matthews, auc,
              balanced_accuracy, kappa, pearson,  spearman, loss};
    case TaskKind::embeddings:
      return {spearman, pearson, mrr, accuracy, ndcg_at_10, mrr_at_10, recall_at_100, map_at_100};
  }
  return {};
}

}  // namespace nystrom
