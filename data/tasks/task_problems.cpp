// What is wrong with the options of a task.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "data/tasks/task_config.h"

namespace nystrom {
namespace {

template <class E>
std::string words(const std::vector<E>& values) {
  std::vector<std::string> names;
  for (const E value : values) names.emplace_back(enum_name(value));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_column_number(const std::string& text) {
  return !text.empty() && text.size() <= 4 && text[0] != '0' &&
         text.find_first_not_of("0123456789") == text.npos;
}

/// A column with two uses would show the model its target, or one text twice.
void check_distinct_columns(const TaskConfig& task, Problems& found) {
  const TaskColumns columns = named_columns(task);
  std::map<std::string, std::string> first_use;
  const auto use = [&](const char* as, const std::optional<std::string>& column) {
    if (!column) return;
    const auto [first, added] = first_use.emplace(*column, as);
    if (added) return;
    found.push_back({{"task.columns." + first->second, fmt::format("task.columns.{}", as)},
                     first->second == as
                         ? fmt::format("task.columns.{} has '{}' twice", as, printable(*column))
                         : fmt::format("task.columns.{} and task.columns.{} are both '{}'; each "
                                       "needs a column of its own",
                                       first->second, as, printable(*column))});
  };
  use("text", columns.text);
  use("pair", columns.pair);
  use("label", columns.label);
  for (const std::string& label : columns.labels) use("labels", label);
  use("file", columns.file);
  use("value", columns.value);
  use("group", columns.group);
  use("weight", columns.weight);
  for (const std::string& choice : columns.choices) use("choices", choice);
  for (const std::string& negative : columns.negatives) use("negatives", negative);
}

void check_columns(const TaskConfig& task, Problems& found) {
  const TaskColumns& columns = task.columns;
  const auto numbered = [&](const char* name, const std::string& value) {
    if (is_column_number(value)) return;
    found.push_back(
        {{fmt::format("task.columns.{}", name), "task.header"},
         fmt::format(
             "task.columns.{} '{}' is no number; without a header columns are numbers from 1", name,
             printable(value))});
  };
  if (task.header == false) {
    for (const auto& [name, value] : {std::pair{"text", columns.text},
                                      {"pair", columns.pair},
                                      {"label", columns.label},
                                      {"id", columns.id},
                                      {"file", columns.file},
                                      {"value", columns.value},
                                      {"group", columns.group},
                                      {"weight", columns.weight}})
      if (value) numbered(name, *value);
    for (const std::string& column : columns.labels) numbered("labels", column);
    for (const std::string& column : columns.choices) numbered("choices", column);
    for (const std::string& column : columns.negatives) numbered("negatives", column);
  }
  check_distinct_columns(task, found);
  const TaskKind kind = *task.kind;
  if (kind == TaskKind::choice && columns.choices.empty())
    found.push_back(
        {{"task.columns.choices"},
         "task.columns.choices is empty; name the columns of the continuations, such as [ending0, "
         "ending1]"});
  if (kind != TaskKind::choice && !columns.choices.empty())
    found.push_back(
        {{"task.columns.choices", "task.kind"},
         fmt::format("task.columns.choices is for tasks of kind choice; this one is of kind {}",
                     enum_name(kind))});
  if (!columns.negatives.empty() && (kind != TaskKind::embeddings || !columns.pair))
    found.push_back({{"task.columns.negatives", "task.columns.pair", "task.kind"},
                     "task.columns.negatives is for tasks of kind embeddings with pairs; give "
                     "task.columns.pair, or leave it out"});
  if (!columns.negatives.empty() && columns.label)
    found.push_back({{"task.columns.negatives", "task.columns.label"},
                     "task.columns.negatives and task.columns.label exclude each other; a pair has "
                     "a score or negatives"});
  if ((kind == TaskKind::tokens || kind == TaskKind::features) && columns.pair)
    found.push_back(
        {{"task.columns.pair", "task.kind"},
         fmt::format("task.columns.pair: a task of kind {} has no second text", enum_name(kind))});
}

/// The options of tables that name feature files.
void check_bags(const TaskConfig& task, Problems& found) {
  const TaskColumns& columns = task.columns;
  const auto add = [&](std::vector<std::string> options, const std::string& message) {
    found.push_back({std::move(options), message});
  };
  const TaskKind kind = *task.kind;
  for (const auto& [name, given] : {std::pair("columns.file", columns.file.has_value()),
                                    {"columns.value", columns.value.has_value()},
                                    {"columns.group", columns.group.has_value()},
                                    {"columns.weight", columns.weight.has_value()},
                                    {"features_folder", task.features_folder.has_value()},
                                    {"splits", !task.splits.empty()},
                                    {"folds", task.folds.has_value()}})
    if (given && kind != TaskKind::features)
      add({fmt::format("task.{}", name), "task.kind"},
          fmt::format("task.{} is for tasks of kind features; this one is of kind {}", name,
                      enum_name(kind)));
  if (columns.file && task.features_folder)
    add({"task.columns.file", "task.features_folder"},
        "task.columns.file and task.features_folder both name the files; leave one of them out");
  if (columns.label && columns.value)
    add({"task.columns.label", "task.columns.value"},
        "task.columns.label and task.columns.value exclude each other; an example has a label or a "
        "number");
  if (task.folds && !task.splits.empty())
    add({"task.folds", "task.splits"},
        "task.folds and task.splits both part the examples; leave one of them out");
  const std::int64_t folds = task.folds.value_or(std::ssize(task.splits));
  if (task.fold > 0 && task.fold >= folds)
    add({"task.fold", "task.folds", "task.splits"},
        folds == 0 ? fmt::format("task.fold is {}, but there are no folds; give task.folds or "
                                 "task.splits",
                                 task.fold)
                   : fmt::format("task.fold is {}, but there are {} folds, numbered from 0",
                                 task.fold, folds));
  for (const auto& [name, given] : {std::pair("validation", !task.validation.empty()),
                                    {"validation_fraction", task.validation_fraction.has_value()}})
    if (given && has_folds(task))
      add({fmt::format("task.{}", name), "task.folds", "task.splits"},
          fmt::format("task.{} holds examples out, but task.{} parts those of task.train; leave it "
                      "out",
                      name, task.folds ? "folds" : "splits"));
  if (task.balance == TaskBalance::none) return;
  if ((kind != TaskKind::classification && kind != TaskKind::features) || columns.value)
    add({"task.balance", "task.kind"},
        fmt::format("task.balance {} is for labels; this task has none", enum_name(task.balance)));
  else if (task.multi_label == true)
    add({"task.balance", "task.multi_label"},
        fmt::format("task.balance {} is for one label an example, and task.multi_label gives it "
                    "any number; leave one of them out",
                    enum_name(task.balance)));
}

void check_labels(const TaskConfig& task, Problems& found) {
  if (task.labels.empty() || task.labels == task.columns.labels) return;
  const TaskKind kind = *task.kind;
  if (kind == TaskKind::regression || kind == TaskKind::questions || kind == TaskKind::embeddings)
    found.push_back({{"task.labels", "task.kind"},
                     fmt::format("task.labels: a task of kind {} has no labels", enum_name(kind))});
  if (task.labels.size() == 1 && task.multi_label != true)
    found.push_back({{"task.labels"},
                     fmt::format("task.labels has 1 entry, '{}'; a choice needs two",
                                 printable(task.labels[0]))});
  std::set<std::string> seen;
  for (const std::string& label : task.labels) {
    if (label.empty()) found.push_back({{"task.labels"}, "task.labels holds an empty label"});
    if (!seen.insert(label).second)
      found.push_back(
          {{"task.labels"}, fmt::format("task.labels has '{}' twice", printable(label))});
    if (task.label_separator && label.find(*task.label_separator) != label.npos)
      found.push_back(
          {{"task.labels", "task.label_separator"},
           fmt::format("task.labels: '{}' holds task.label_separator '{}'; choose another one",
                       printable(label), printable(*task.label_separator))});
  }
}

/// The options of texts with several labels.
void check_multi_label(const TaskConfig& task, Problems& found) {
  const TaskColumns& columns = task.columns;
  const bool by_columns = !columns.labels.empty();
  const auto wrong = [&](std::vector<std::string> options, std::string message) {
    found.push_back({std::move(options), std::move(message)});
  };
  if (task.multi_label == true && *task.kind != TaskKind::classification)
    wrong({"task.multi_label", "task.label_separator", "task.columns.labels", "task.kind"},
          fmt::format("task.multi_label is for tasks of kind classification; this one is of kind "
                      "{}",
                      enum_name(*task.kind)));
  if (task.multi_label == false && (task.label_separator || by_columns))
    wrong({"task.multi_label", "task.label_separator", "task.columns.labels"},
          fmt::format("task.multi_label is false, and task.{} is for several labels a text; leave "
                      "one of them out",
                      by_columns ? "columns.labels" : "label_separator"));
  if (task.multi_label == false && task.threshold)
    wrong(
        {"task.threshold", "task.multi_label"},
        "task.threshold is for several labels a text (task.multi_label); a text with one gets the "
        "most probable: leave it out");
  if (task.label_separator && task.label_separator->empty())
    wrong({"task.label_separator"}, "task.label_separator is empty; give a character, such as ;");
  if (by_columns && (columns.label || task.label_separator))
    wrong({"task.columns.labels", "task.columns.label", "task.label_separator"},
          fmt::format("task.columns.labels and task.{} exclude each other; labels stand in one "
                      "column, or in one each",
                      columns.label ? "columns.label" : "label_separator"));
  if (!by_columns || task.labels.empty()) {
    if (by_columns && task.header == false)
      wrong({"task.columns.labels", "task.labels", "task.header"},
            "task.columns.labels are numbers of columns; name their labels in task.labels");
    return;
  }
  if (columns.labels.size() != task.labels.size())
    wrong({"task.columns.labels", "task.labels"},
          fmt::format("task.columns.labels has {} entries, task.labels {}; give one for each",
                      columns.labels.size(), task.labels.size()));
  else if (task.header != false && !std::ranges::is_permutation(columns.labels, task.labels))
    wrong({"task.columns.labels", "task.labels"},
          "task.columns.labels and task.labels name different labels; a column's name is its "
          "label: leave task.labels out");
}

}  // namespace

Problems problems(const TaskConfig& given) {
  Problems found;
  const std::vector<std::string> known = task_recipes();
  if (given.recipe && std::ranges::find(known, *given.recipe) == known.end()) {
    found.push_back(
        {{"task.recipe"},
         fmt::format("task.recipe '{}' is unknown{}; expected one of {}", printable(*given.recipe),
                     did_you_mean(*given.recipe, known), fmt::join(known, ", "))});
    return found;
  }
  if (!given.kind && !given.recipe) {
    found.push_back(
        {{"task.kind", "task.recipe"},
         "task.kind is missing; expected classification, regression, tokens, questions, choice, "
         "features or embeddings, or a task.recipe"});
    return found;
  }
  TaskConfig recipe;
  recipe.recipe = given.recipe;
  const std::optional<TaskKind> usual = resolve_task(recipe).kind;
  if (usual && given.kind && *given.kind != *usual) {
    found.push_back(
        {{"task.kind", "task.recipe"},
         fmt::format("task.kind {} does not fit task.recipe {}, which is {}; leave it out",
                     enum_name(*given.kind), *given.recipe, enum_name(*usual))});
    return found;
  }
  const TaskConfig task = resolve_task(given);
  const TaskKind kind = *task.kind;
  const auto formats = formats_of(kind);
  if (task.format && std::ranges::find(formats, *task.format) == formats.end())
    found.push_back(
        {{"task.format", "task.kind"},
         fmt::format("task.format {} does not hold a task of kind {}; expected one of {}",
                     enum_name(*task.format), enum_name(kind), words(formats))});
  const auto metrics = metrics_of(task);
  if (task.metric && std::ranges::find(metrics, *task.metric) == metrics.end())
    found.push_back(
        {{"task.metric", "task.kind", "task.multi_label"},
         fmt::format("task.metric {} does not measure a task of kind {}{}; expected one of {}",
                     enum_name(*task.metric), enum_name(kind),
                     *task.multi_label ? " with several labels a text" : "", words(metrics))});
  check_columns(task, found);
  check_labels(task, found);
  check_multi_label(task, found);
  check_bags(task, found);
  if (task.windows != TaskWindows::first && kind != TaskKind::classification &&
      kind != TaskKind::regression)
    found.push_back({{"task.windows", "task.kind"},
                     fmt::format("task.windows {} is for tasks of kind classification or "
                                 "regression; this one is of kind {}",
                                 enum_name(task.windows), enum_name(kind))});
  if (task.windows != TaskWindows::first && task.columns.pair)
    found.push_back({{"task.windows", "task.columns.pair"},
                     fmt::format("task.windows {} is for single texts, and task.columns.pair names "
                                 "a second one; leave one of them out",
                                 enum_name(task.windows))});
  if (task.word_cut && kind != TaskKind::tokens)
    found.push_back(
        {{"task.word_cut", "task.kind"},
         fmt::format("task.word_cut is for tasks of kind tokens; this one is of kind {}",
                     enum_name(kind))});
  if (task.no_answer == true && kind != TaskKind::questions)
    found.push_back(
        {{"task.no_answer", "task.kind"},
         fmt::format("task.no_answer is for tasks of kind questions; this one is of kind {}",
                     enum_name(kind))});
  return found;
}

}  // namespace nystrom
