// The rules between the options of a task.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "data/tasks/example_files.h"

namespace nystrom {
namespace {

/// Adds a problem of these options of the section `task`.
template <class... Args>
void add(Problems& found, std::vector<std::string> options, fmt::format_string<Args...> message,
         Args&&... args) {
  for (std::string& option : options) option.insert(0, "task.");
  add_problem(found, std::move(options), message, std::forward<Args>(args)...);
}

/// Adds a problem when an option that is given is for tasks of another kind. `more` are the options
/// that imply it.
void require_kind(const TaskConfig& task, TaskKind kind, const char* option, bool given,
                  Problems& found, const std::vector<std::string>& more = {}) {
  if (!given || *task.kind == kind) return;
  std::vector<std::string> options = {option};
  std::ranges::copy(more, std::back_inserter(options));
  options.emplace_back("kind");
  add(found, options, "task.{} is for tasks of kind {}; this one is of kind {}", option,
      enum_name(kind), enum_name(*task.kind));
}

bool is_column_number(const std::string& text) {
  return !text.empty() && text.size() <= 4 && text[0] != '0' &&
         text.find_first_not_of("0123456789") == text.npos;
}

/// A column with two uses would show the model its target, or one text twice.
void check_distinct_columns(const TaskConfig& task, Problems& found) {
  std::map<std::string, std::string> first_use;
  for (const auto& [name, column] : given_columns(named_columns(task))) {
    if (name == "id") continue;
    const auto [first, added] = first_use.emplace(column, name);
    if (added) continue;
    const std::vector<std::string> options = {"columns." + first->second, "columns." + name};
    if (first->second == name)
      add(found, options, "task.columns.{} has '{}' twice", name, printable(column));
    else
      add(found, options,
          "task.columns.{} and task.columns.{} are both '{}'; each needs a column of its own",
          first->second, name, printable(column));
  }
}

void check_columns(const TaskConfig& task, Problems& found) {
  const TaskColumns& columns = task.columns;
  if (task.header == false)
    for (const auto& [name, column] : given_columns(columns))
      if (!is_column_number(column))
        add(found, {"columns." + name, "header"},
            "task.columns.{} '{}' is no number; without a header columns are numbers from 1", name,
            printable(column));
  check_distinct_columns(task, found);
  const TaskKind kind = *task.kind;
  if (kind == TaskKind::choice && columns.choices.empty())
    add(found, {"columns.choices"},
        "task.columns.choices is empty; name the columns of the continuations, such as [ending0, "
        "ending1]");
  require_kind(task, TaskKind::choice, "columns.choices", !columns.choices.empty(), found);
  if (!columns.negatives.empty() && (kind != TaskKind::embeddings || !columns.pair))
    add(found, {"columns.negatives", "columns.pair", "kind"},
        "task.columns.negatives is for tasks of kind embeddings with pairs; give "
        "task.columns.pair, or leave it out");
  if (!columns.negatives.empty() && columns.label)
    add(found, {"columns.negatives", "columns.label"},
        "task.columns.negatives and task.columns.label exclude each other; a pair has a score or "
        "negatives");
  if ((kind == TaskKind::tokens || kind == TaskKind::features) && columns.pair)
    add(found, {"columns.pair", "kind"}, "task.columns.pair: a task of kind {} has no second text",
        enum_name(kind));
}

/// The options of tables that name feature files.
void check_bags(const TaskConfig& task, Problems& found) {
  const TaskColumns& columns = task.columns;
  const TaskKind kind = *task.kind;
  for (const auto& [name, given] : {std::pair("columns.file", columns.file.has_value()),
                                    {"columns.value", columns.value.has_value()},
                                    {"columns.group", columns.group.has_value()},
                                    {"columns.weight", columns.weight.has_value()},
                                    {"features_folder", task.features_folder.has_value()},
                                    {"splits", !task.splits.empty()},
                                    {"folds", task.folds.has_value()}})
    require_kind(task, TaskKind::features, name, given, found);
  if (columns.file && task.features_folder)
    add(found, {"columns.file", "features_folder"},
        "task.columns.file and task.features_folder both name the files; leave one of them out");
  if (columns.label && columns.value)
    add(found, {"columns.label", "columns.value"},
        "task.columns.label and task.columns.value exclude each other; an example has a label or a "
        "number");
  if (task.folds && !task.splits.empty())
    add(found, {"folds", "splits"},
        "task.folds and task.splits both part the examples; leave one of them out");
  const std::int64_t folds = task.folds.value_or(std::ssize(task.splits));
  if (task.fold > 0 && folds == 0)
    add(found, {"fold", "folds", "splits"},
        "task.fold is {}, but there are no folds; give task.folds or task.splits", task.fold);
  else if (task.fold > 0 && task.fold >= folds)
    add(found, {"fold", "folds", "splits"},
        "task.fold is {}, but there are {} folds, numbered from 0", task.fold, folds);
  for (const auto& [name, given] : {std::pair("validation", !task.validation.empty()),
                                    {"validation_fraction", task.validation_fraction.has_value()}})
    if (given && has_folds(task))
      add(found, {name, "folds", "splits"},
          "task.{} holds examples out, but task.{} parts those of task.train; leave it out", name,
          task.folds ? "folds" : "splits");
  if (kind == TaskKind::features && task.bad_rows == BadRows::skip)
    add(found, {"bad_rows", "kind"},
        "task.bad_rows skip is for texts; correct the features, or leave their row out");
  if (task.balance == TaskBalance::none) return;
  if ((kind != TaskKind::classification && kind != TaskKind::features) || columns.value)
    add(found, {"balance", "kind"},
        "task.balance {} is for classes of texts or bags; this task has none",
        enum_name(task.balance));
  else if (task.multi_label == true)
    add(found, {"balance", "multi_label"},
        "task.balance {} is for one label an example, and task.multi_label gives it any number; "
        "leave one of them out",
        enum_name(task.balance));
}

void check_labels(const TaskConfig& task, Problems& found) {
  if (task.labels.empty() || task.labels == task.columns.labels) return;
  const TaskKind kind = *task.kind;
  if (kind == TaskKind::regression || kind == TaskKind::questions || kind == TaskKind::embeddings)
    add(found, {"labels", "kind"}, "task.labels: a task of kind {} has no labels", enum_name(kind));
  if (task.columns.value)
    add(found, {"labels", "columns.value"},
        "task.labels names classes, and task.columns.value a number to predict; leave one of them "
        "out");
  if (task.labels.size() == 1 && task.multi_label != true)
    add(found, {"labels"}, "task.labels has 1 entry, '{}'; a choice needs two",
        printable(task.labels[0]));
  std::set<std::string> seen;
  for (const std::string& label : task.labels) {
    if (label.empty()) add(found, {"labels"}, "task.labels holds an empty label");
    if (!seen.insert(label).second)
      add(found, {"labels"}, "task.labels has '{}' twice", printable(label));
    if (task.label_separator && label.find(*task.label_separator) != label.npos)
      add(found, {"labels", "label_separator"},
          "task.labels: '{}' holds task.label_separator '{}'; choose another one", printable(label),
          printable(*task.label_separator));
  }
}

/// The options of texts with several labels.
void check_multi_label(const TaskConfig& task, Problems& found) {
  const TaskColumns& columns = task.columns;
  const bool by_columns = !columns.labels.empty();
  require_kind(task, TaskKind::classification, "multi_label", task.multi_label == true, found,
               {"label_separator", "columns.labels"});
  if (task.multi_label == false && (task.label_separator || by_columns))
    add(found, {"multi_label", "label_separator", "columns.labels"},
        "task.multi_label is false, and task.{} is for several labels per text; leave one of them "
        "out",
        by_columns ? "columns.labels" : "label_separator");
  if (task.multi_label == false && task.threshold)
    add(found, {"threshold", "multi_label"},
        "task.threshold is for several labels per text (task.multi_label); a text with one gets "
        "the most probable: leave it out");
  if (task.label_separator && task.label_separator->empty())
    add(found, {"label_separator"}, "task.label_separator is empty; give a character, such as ;");
  if (by_columns && (columns.label || task.label_separator))
    add(found, {"columns.labels", "columns.label", "label_separator"},
        "task.columns.labels and task.{} exclude each other; labels stand in one column, or in one "
        "each",
        columns.label ? "columns.label" : "label_separator");
  if (by_columns && task.labels.empty() && task.header == false)
    add(found, {"columns.labels", "labels", "header"},
        "task.columns.labels are numbers of columns; name their labels in task.labels");
  if (!by_columns || task.labels.empty()) return;
  if (columns.labels.size() != task.labels.size())
    add(found, {"columns.labels", "labels"},
        "task.columns.labels has {} entries, task.labels {}; give one for each",
        columns.labels.size(), task.labels.size());
  else if (task.header != false && !std::ranges::is_permutation(columns.labels, task.labels))
    add(found, {"columns.labels", "labels"},
        "task.columns.labels and task.labels name different labels; a column's name is its label: "
        "leave task.labels out");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> given_columns(TaskColumns columns) {
  std::vector<std::pair<std::string, std::string>> given;
  auto visit = [&](const auto& named, const std::string& name, const char*) {
    if constexpr (is_vector<std::decay_t<decltype(named)>>)
      for (const std::string& column : named) given.emplace_back(name, column);
    else if (named)
      given.emplace_back(name, *named);
  };
  fields(visit, columns);
  return given;
}

Problems problems(const TaskConfig& given) {
  Problems found;
  const std::vector<std::string> known = task_recipes();
  TaskConfig recipe;
  recipe.recipe = given.recipe;
  const std::optional<TaskKind> usual = resolve_task(recipe).kind;
  if (given.recipe && std::ranges::find(known, *given.recipe) == known.end())
    add(found, {"recipe"}, "task.recipe '{}' is unknown{}; expected one of {}",
        printable(*given.recipe), did_you_mean(*given.recipe, known), fmt::join(known, ", "));
  else if (!given.kind && !given.recipe)
    add(found, {"kind", "recipe"},
        "task.kind is missing; expected classification, regression, tokens, questions, choice, "
        "features or embeddings, or a task.recipe");
  else if (usual && given.kind && *given.kind != *usual)
    add(found, {"kind", "recipe"},
        "task.kind {} does not fit task.recipe {}, which is {}; leave it out",
        enum_name(*given.kind), *given.recipe, enum_name(*usual));
  if (!found.empty()) return found;  // the others follow from the kind
  const TaskConfig task = resolve_task(given);
  const TaskKind kind = *task.kind;
  const auto formats = formats_of(kind);
  if (task.format && std::ranges::find(formats, *task.format) == formats.end())
    add(found, {"format", "kind"},
        "task.format {} does not hold a task of kind {}; expected one of {}",
        enum_name(*task.format), enum_name(kind), fmt::join(names_of(formats), ", "));
  const auto metrics = metrics_of(task);
  if (task.metric && std::ranges::find(metrics, *task.metric) == metrics.end())
    add(found, {"metric", "kind", "multi_label"},
        "task.metric {} does not measure a task of kind {}{}; expected one of {}",
        enum_name(*task.metric), enum_name(kind),
        *task.multi_label ? " with several labels per text" : "",
        fmt::join(names_of(metrics), ", "));
  check_columns(task, found);
  check_labels(task, found);
  check_multi_label(task, found);
  check_bags(task, found);
  const bool windows = task.windows != TaskWindows::first;
  if (windows && kind != TaskKind::classification && kind != TaskKind::regression)
    add(found, {"windows", "kind"},
        "task.windows {} is for tasks of kind classification or regression; this one is of kind {}",
        enum_name(task.windows), enum_name(kind));
  if (windows && holds_images(task.format))
    add(found, {"windows", "format"},
        "task.windows {} is for texts, and task.format {} holds images; leave it out",
        enum_name(task.windows), enum_name(*task.format));
  if (windows && task.columns.pair)
    add(found, {"windows", "columns.pair"},
        "task.windows {} is for single texts, and task.columns.pair names a second one; leave one "
        "of them out",
        enum_name(task.windows));
  if (given.stride && kind != TaskKind::questions && kind != TaskKind::classification &&
      kind != TaskKind::regression)
    add(found, {"stride", "kind"},
        "task.stride is what windows share, and a task of kind {} has none; leave it out",
        enum_name(kind));
  else if (given.stride && kind != TaskKind::questions && !windows)
    add(found, {"stride", "windows"},
        "task.stride is what windows share, and with task.windows first there is one; set "
        "task.windows to mean or max, or task.stride to null");
  const TaskConfig plain;
  require_kind(task, TaskKind::tokens, "word_cut", task.word_cut.has_value(), found);
  for (const auto& [option, is_given] :
       {std::pair("no_answer", task.no_answer == true),
        {"no_answer_threshold", given.no_answer_threshold != plain.no_answer_threshold},
        {"max_answer_length", given.max_answer_length != plain.max_answer_length},
        {"whole_words", given.whole_words != plain.whole_words}})
    require_kind(task, TaskKind::questions, option, is_given, found);
  if (kind == TaskKind::questions && task.no_answer != true &&
      given.no_answer_threshold != plain.no_answer_threshold)
    add(found, {"no_answer_threshold", "no_answer"},
        "task.no_answer_threshold is for task.no_answer: true; set it, or leave the threshold out");
  require_kind(task, TaskKind::embeddings, "views", given.views != plain.views, found);
  require_kind(task, TaskKind::embeddings, "max_score", given.max_score != plain.max_score, found);
  if (kind == TaskKind::embeddings && given.max_score != plain.max_score && !task.columns.label)
    add(found, {"max_score", "columns.label"},
        "task.max_score divides scores of pairs, and task.columns.label names none; leave it out");
  return found;
}

}  // namespace nystrom
