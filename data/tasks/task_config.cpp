#include "data/tasks/task_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/tasks/image_files.h"

namespace nystrom {

std::span<const EnumName<TaskKind>> enum_names(TaskKind) {
  static constexpr EnumName<TaskKind> names[] = {{TaskKind::classification, "classification"},
                                                 {TaskKind::regression, "regression"},
                                                 {TaskKind::tokens, "tokens"},
                                                 {TaskKind::questions, "questions"},
                                                 {TaskKind::choice, "choice"},
                                                 {TaskKind::features, "features"},
                                                 {TaskKind::embeddings, "embeddings"}};
  return names;
}

std::span<const EnumName<TaskFormat>> enum_names(TaskFormat) {
  static constexpr EnumName<TaskFormat> names[] = {{TaskFormat::tsv, "tsv"},
                                                   {TaskFormat::csv, "csv"},
                                                   {TaskFormat::jsonl, "jsonl"},
                                                   {TaskFormat::json, "json"},
                                                   {TaskFormat::conll, "conll"},
                                                   {TaskFormat::squad, "squad"},
                                                   {TaskFormat::folders, "folders"},
                                                   {TaskFormat::lines, "lines"},
                                                   {TaskFormat::documents, "documents"},
                                                   {TaskFormat::hdf5, "hdf5"},
                                                   {TaskFormat::cifar10, "cifar10"},
                                                   {TaskFormat::pathfinder, "pathfinder"}};
  return names;
}

std::span<const EnumName<TaskMetric>> enum_names(TaskMetric) {
  static constexpr EnumName<TaskMetric> names[] = {
      {TaskMetric::accuracy, "accuracy"},
      {TaskMetric::f1, "f1"},
      {TaskMetric::f1_macro, "f1_macro"},
      {TaskMetric::f1_micro, "f1_micro"},
      {TaskMetric::mean_average_precision, "mean_average_precision"},
      {TaskMetric::matthews, "matthews"},
      {TaskMetric::pearson, "pearson"},
      {TaskMetric::spearman, "spearman"},
      {TaskMetric::exact_match, "exact_match"},
      {TaskMetric::mrr, "mrr"},
      {TaskMetric::ndcg_at_10, "ndcg_at_10"},
      {TaskMetric::mrr_at_10, "mrr_at_10"},
      {TaskMetric::recall_at_100, "recall_at_100"},
      {TaskMetric::map_at_100, "map_at_100"},
      {TaskMetric::auc, "auc"},
      {TaskMetric::balanced_accuracy, "balanced_accuracy"},
      {TaskMetric::kappa, "kappa"},
      {TaskMetric::loss, "loss"}};
  return names;
}

std::span<const EnumName<TaskWindows>> enum_names(TaskWindows) {
  static constexpr EnumName<TaskWindows> names[] = {
      {TaskWindows::first, "first"}, {TaskWindows::mean, "mean"}, {TaskWindows::max, "max"}};
  return names;
}

std::span<const EnumName<TaskViews>> enum_names(TaskViews) {
  static constexpr EnumName<TaskViews> names[] = {{TaskViews::dropout, "dropout"},
                                                  {TaskViews::crops, "crops"}};
  return names;
}

std::span<const EnumName<WordCut>> enum_names(WordCut) {
  static constexpr EnumName<WordCut> names[] = {{WordCut::spaces, "spaces"},
                                                {WordCut::words, "words"},
                                                {WordCut::ideographs, "ideographs"},
                                                {WordCut::characters, "characters"}};
  return names;
}

std::span<const EnumName<TaskBalance>> enum_names(TaskBalance) {
  static constexpr EnumName<TaskBalance> names[] = {{TaskBalance::none, "none"},
                                                    {TaskBalance::weights, "weights"},
                                                    {TaskBalance::sampling, "sampling"}};
  return names;
}

std::span<const EnumName<BadRows>> enum_names(BadRows) {
  static constexpr EnumName<BadRows> names[] = {{BadRows::stop, "stop"}, {BadRows::skip, "skip"}};
  return names;
}

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
  const std::vector<std::string> binary{"0", "1"}, entailment{"entailment", "not_entailment"};
  static const std::vector<Recipe> all{
      {"sst2", classification, tsv, true, "sentence", {}, "label", binary, accuracy},
      {"cola", classification, tsv, false, "4", {}, "2", binary, matthews},
      {"mrpc", classification, tsv, true, "#1 String", "#2 String", "Quality", binary, f1},
      {"stsb", regression, tsv, true, "sentence1", "sentence2", "score", {}, pearson},
      {"qqp", classification, tsv, true, "question1", "question2", "is_duplicate", binary, f1,
       BadRows::skip},  // some rows are cut
      {"mnli",
       classification,
       tsv,
       true,
       "sentence1",
       "sentence2",
       "gold_label",
       {"entailment", "neutral", "contradiction"},
       accuracy},
      {"qnli", classification, tsv, true, "question", "sentence", "label", entailment, accuracy},
      {"rte", classification, tsv, true, "sentence1", "sentence2", "label", entailment, accuracy},
      {"imdb", classification, folders, true, {}, {}, {}, {"neg", "pos"}, accuracy},
      {"trec", classification, tsv, true, "text", {}, "coarse", {}, accuracy},
      {"listops",
       classification,
       tsv,
       true,
       "Source",
       {},
       "Target",
       {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
       accuracy},
      {"aan", classification, tsv, false, "4", "5", "1", {}, accuracy},
      {"cifar10",
       classification,
       TaskFormat::cifar10,
       true,
       {},
       {},
       {},
       cifar10_classes(),
       accuracy},
      {"pathfinder",
       classification,
       TaskFormat::pathfinder,
       true,
       {},
       {},
       {},
       binary,
       accuracy,
       BadRows::skip},  // some images are empty
  };
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
    if (!task.columns.label && task.labels.empty()) task.labels = recipe->labels;
    fill(task.columns.label, recipe->label);
    fill(task.metric, recipe->metric);
    fill(task.bad_rows, recipe->bad_rows);
  }
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
