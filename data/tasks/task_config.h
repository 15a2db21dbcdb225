// A downstream task: what its files are and what is asked of the model. The `task` section of a
// run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/base/problem.h"

namespace nystrom {

/// What is asked about an example.
enum class TaskKind {
  classification,  ///< one of several labels for a text or a pair of texts
  regression,      ///< a number for a text or a pair of texts
  tokens,          ///< a label for every word
  questions,       ///< the part of a context that answers a question
  choice,          ///< the one of several continuations that fits a text
  features,        ///< a label or a number for a sequence of feature vectors
};

/// How a file holds its examples.
enum class TaskFormat {
  tsv,    ///< columns between tabs; quotes are characters like others, as in GLUE's files
  csv,    ///< RFC 4180: columns between commas; a cell in double quotes may hold commas, line ends
          ///< and doubled quotes
  jsonl,  ///< one JSON object a line
  conll,  ///< a word a line with its label behind, an empty line between sentences
  squad,  ///< one JSON document as SQuAD 1.1 and 2.0 have it
  folders,  ///< a folder a label, a text a file in it, as IMDB has it
  lines,    ///< one text a line and no label: for predictions
  hdf5,     ///< feature sequences: data/tasks/feature_file.h
  cifar10,  ///< images: CIFAR-10's binary batches, a byte for the class and 3 · 32 · 32 for the
            ///< pixels
  pathfinder,  ///< images: a metadata file of Pathfinder, a line an image, beside the folder of its
               ///< PNG files
};

/// Numbers that tell how good predictions are: data/tasks/task_metrics.h.
enum class TaskMetric { accuracy, f1, f1_macro, matthews, pearson, spearman, exact_match };

/// What happens to rows that cannot be read.
enum class BadRows { stop, skip };

std::span<const EnumName<TaskKind>> enum_names(TaskKind);
std::span<const EnumName<TaskFormat>> enum_names(TaskFormat);
std::span<const EnumName<TaskMetric>> enum_names(TaskMetric);
std::span<const EnumName<BadRows>> enum_names(BadRows);

/// Names of columns; numbers from 1 where files have no header. Null or empty: by the task's
/// recipe, kind and format.
struct TaskColumns {
  std::optional<std::string> text;
  std::optional<std::string> pair;
  std::optional<std::string> label;
  std::optional<std::string> id;
  std::vector<std::string> choices;
};

template <class V>
void fields(V& v, TaskColumns& c) {
  v(c.text, "text",
    "the text; questions: the question; choice: the beginning; tokens: the words. null: by the "
    "recipe or kind");
  v(c.pair, "pair",
    "a second text; choice: how every continuation begins. null: by the recipe, or none");
  v(c.label, "label", "the label; null: by the recipe or kind");
  v(c.id, "id", "a name of the example, repeated in predictions; null: none");
  v(c.choices, "choices",
    "choice: the continuations, a column each; in JSON Lines one column alone may hold a list");
}

struct TaskConfig {
  std::optional<std::string> recipe;
  std::optional<TaskKind> kind;
  std::vector<std::string> train;
  std::vector<std::string> validation;
  std::optional<TaskFormat> format;
  std::optional<bool> header;
  TaskColumns columns;
  std::vector<std::string> labels;
  std::optional<TaskMetric> metric;
  std::optional<BadRows> bad_rows;
  std::int64_t stride = 128;
  std::int64_t max_answer_length = 30;
  std::optional<bool> no_answer;
  double no_answer_threshold = 0;
};

template <class V>
void fields(V& v, TaskConfig& c) {
  v(c.recipe, "recipe",
    "a task whose files are known: sst2, cola, mrpc, stsb, qqp, mnli, qnli, rte, imdb, trec; "
    "listops, aan, cifar10, pathfinder; options "
    "beside it win");
  v(c.kind, "kind", "the kind of task; needed without a recipe");
  v(c.train, "train",
    "files to train on: paths and patterns; plain, .gz or .zst; for folders their parent");
  v(c.validation, "validation", "held-out files");
  v(c.format, "format",
    "how files hold examples; null: by the recipe or by the ending of their names");
  v(c.header, "header",
    "tsv, csv: the first row names the columns; else they are numbers from 1. null: by the recipe, "
    "or true");
  v(c.columns, "columns", "which column is what");
  v(c.labels, "labels",
    "labels in the order of the model's outputs; empty: those of the training files, sorted");
  v(c.metric, "metric",
    "decides the best checkpoint. f1: of the second of two labels, of entities, of answers. null: "
    "by the recipe or kind");
  v(c.bad_rows, "bad_rows",
    "rows that cannot be read. stop: are errors; skip: are left out and counted. null: by the "
    "recipe, or stop");
  v(c.stride, "stride", "questions: tokens that neighbouring windows of a long context share",
    not_negative);
  v(c.max_answer_length, "max_answer_length", "questions: most tokens of an answer", at_least(1));
  v(c.no_answer, "no_answer",
    "questions: the context may have no answer, as in SQuAD 2.0. null: false");
  v(c.no_answer_threshold, "no_answer_threshold",
    "questions: how far an answer's score may lie below that of none and still be given");
}

/// The names of the built-in recipes.
std::vector<std::string> task_recipes();

/// What `task` says with what follows from its recipe and its kind filled in: kind, header, metric,
/// bad_rows and no_answer; format, columns and labels as far as the recipe knows them. Doing it
/// again changes nothing. Only for a task without problems.
TaskConfig resolve_task(TaskConfig task);

/// The columns of a resolved task with the names that text, label and, for questions, pair have in
/// tables where none is given.
TaskColumns named_columns(const TaskConfig& task);

/// Everything about `task` that its options' ranges cannot say, a line each, beginning with the
/// path of the option at fault: "task.recipe 'sst' is unknown; did you mean 'sst2'?". Files are not
/// looked at. Empty: it can be resolved.
Problems problems(const TaskConfig& task);

/// Whether outputs are words of a label set: classification and tokens. (Classes of features are
/// numbers in their files.)
bool has_labels(TaskKind kind);

/// The formats that can hold a kind of task. lines, and tables of questions, have no labels: they
/// are for predictions.
std::vector<TaskFormat> formats_of(TaskKind kind);

/// The metrics that fit a kind, the usual one first. features: those of classification, then those
/// of regression.
std::vector<TaskMetric> metrics_of(TaskKind kind);

}  // namespace nystrom
