// The configuration of a downstream task: its files and its kind. It is the `task` section of a
// run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/base/problem.h"

namespace nystrom {

/// The kind of prediction for an example.
enum class TaskKind {
  classification,  ///< a label for a text or a pair of texts
  regression,      ///< a number for a text or a pair of texts
  tokens,          ///< a label for every word
  questions,       ///< the part of a context that answers a question
  choice,          ///< the right one of several continuations of a text
  features,        ///< a label or a number for a sequence of feature vectors
  embeddings,      ///< one vector a text, similar for similar texts
};

/// The format of a file with examples.
enum class TaskFormat {
  /// Columns between tabs. Quotes are ordinary characters, as in GLUE's files, unless the whole
  /// file shows that a program wrote them.
  tsv,
  /// RFC 4180: columns between commas. A cell in double quotes may hold commas, line ends and
  /// doubled quotes.
  csv,
  jsonl,      ///< one JSON object a line
  json,       ///< a JSON array of objects, or an object of arrays
  conll,      ///< a word and its label a line, and an empty line between sentences
  squad,      ///< one JSON document in the form of SQuAD 1.1 and 2.0
  folders,    ///< a folder for each label, with one text a file, as in IMDB
  lines,      ///< one text a line without labels, for predictions
  documents,  ///< one text a file without labels, for predictions
  /// Feature sequences: data/tasks/feature_file.h. A table names one file a bag: data/tasks/bags.h.
  hdf5,
  /// Images: CIFAR-10's binary batches, with a byte for the class and 3 · 32 · 32 bytes for the
  /// pixels.
  cifar10,
  /// Images: a metadata file of Pathfinder with an image a line, beside the folder of its PNG
  /// files.
  pathfinder,
};

/// Metrics of predictions: data/tasks/task_metrics.h.
enum class TaskMetric {
  accuracy,
  f1,
  f1_macro,
  f1_micro,
  mean_average_precision,
  matthews,
  pearson,
  spearman,
  exact_match,
  mrr,
  ndcg_at_10,
  mrr_at_10,
  recall_at_100,
  map_at_100,
  auc,
  balanced_accuracy,
  kappa,
  loss,
};

/// The part of a long text that a model reads, and how several outputs become one.
enum class TaskWindows {
  first,  ///< the beginning alone
  mean,   ///< all of it in windows; the mean of their outputs
  max,    ///< all of it in windows; per output the largest
};

/// The two texts that one text becomes, where a task of kind embeddings has no pairs.
enum class TaskViews {
  dropout,  ///< the text twice, with other dropout (SimCSE; Gao et al., EMNLP 2021)
  crops,    ///< two random parts of it (Izacard et al., TMLR 2022)
};

/// How raw text is cut into the words that a model labels.
enum class WordCut {
  spaces,      ///< at white space
  words,       ///< punctuation marks are words too, unless they are within a word (split_words)
  ideographs,  ///< so is each character of a script without spaces, such as Chinese and Thai
  characters,  ///< each character is a word
};

/// How rare labels count as much as frequent ones in training.
enum class TaskBalance {
  none,
  /// A sample's loss is multiplied by the mean number of samples of a label over that of its
  /// own.
  weights,
  /// Examples of all labels come in turn, those of rare labels more often.
  sampling,
};

/// The treatment of unreadable rows.
enum class BadRows { stop, skip };

/// Names of columns, or numbers from 1 if files have no header. Null or empty: the task's recipe,
/// kind and format decide.
struct TaskColumns {
  std::optional<std::string> text;
  std::optional<std::string> pair;
  std::optional<std::string> label;
  std::optional<std::string> id;
  std::vector<std::string> labels;
  std::optional<std::string> file, value, group, weight;
  std::vector<std::string> choices;
  std::vector<std::string> negatives;
  bool operator==(const TaskColumns&) const = default;
};

template <class V>
void fields(V& v, TaskColumns& c) {
  v(c.text, "text",
    "the text; questions: the question; choice: the beginning; tokens: the words. null: by the "
    "recipe or kind");
  v(c.pair, "pair",
    "a second text; choice: how every continuation begins; embeddings: a text like the first. "
    "null: by the recipe, or none");
  v(c.label, "label",
    "the label; questions: the answers; null: by the recipe or kind. embeddings: the similarity of "
    "a pair, or the label that similar texts share; null: none");
  v(c.labels, "labels",
    "multi_label: a column for each label, with 1 where a text has it and 0 elsewhere, in the "
    "place of `label`; their names are the labels");
  v(c.id, "id",
    "a name of the example, repeated in predictions; null: none, but questions read id, if it is "
    "there, to find doubled ones");
  v(c.file, "file", "tables of feature files: the file, relative to the table; null: file");
  v(c.value, "value", "tables of feature files: a number to predict, in place of a label");
  v(c.group, "group",
    "tables of feature files: examples that belong together, such as a patient's; no split parts "
    "them");
  v(c.weight, "weight", "tables of feature files: the factor of the example's loss in training");
  v(c.choices, "choices",
    "choice: the continuations, a column each; in JSON Lines one column alone may hold a list, or "
    "{text: [...], label: [...]}");
  v(c.negatives, "negatives", "embeddings: texts unlike the first, a column each");
}

/// The options `task`.
struct TaskConfig {
  std::optional<std::string> recipe;
  std::optional<TaskKind> kind;
  std::vector<std::string> train;
  std::vector<std::string> validation;
  std::optional<double> validation_fraction;
  std::optional<std::string> features_folder;
  std::vector<std::string> splits;
  std::optional<std::int64_t> folds;
  std::int64_t fold = 0;
  TaskBalance balance = TaskBalance::none;
  std::optional<TaskFormat> format;
  std::optional<bool> header;
  TaskColumns columns;
  std::vector<std::string> labels;
  std::optional<bool> multi_label;
  std::optional<std::string> label_separator;
  std::optional<double> threshold;
  std::optional<TaskMetric> metric;
  std::optional<BadRows> bad_rows;
  TaskWindows windows = TaskWindows::first;
  TaskViews views = TaskViews::dropout;
  std::optional<WordCut> word_cut;
  double max_score = 1;
  std::optional<std::int64_t> stride;
  std::int64_t max_answer_length = 30;
  bool whole_words = true;
  std::optional<bool> no_answer;
  double no_answer_threshold = 0;
  /// Whether the model learned bags, as its export says. No option: task.train tells a run.
  std::optional<bool> learned_bags;
  /// No option: the texts are read for a masked language model, which has data.text_column alone.
  bool fills_masks = false;
  bool operator==(const TaskConfig&) const = default;
};

template <class V>
void fields(V& v, TaskConfig& c) {
  v(c.recipe, "recipe",
    "a task whose files are known: sst2, cola, mrpc, stsb, qqp, mnli, qnli, rte, imdb, trec; "
    "listops, aan, cifar10, pathfinder; options beside it win");
  v(c.kind, "kind", "the kind of task; needed without a recipe");
  v(c.train, "train",
    "files to train on: paths and patterns; plain, .gz or .zst; for folders their parent");
  v(c.validation, "validation",
    "held-out files; embeddings: also a folder in BEIR's form, whose qrels/dev.tsv, else test.tsv, "
    "is used");
  v(c.validation_fraction, "validation_fraction",
    "share of the training examples to hold out when no validation files are given; null: 0.1. Of "
    "each label "
    "alike, drawn by seed; equal inputs stay on one side",
    open_probability);
  v(c.features_folder, "features_folder",
    "tables of feature files: the folder with a file ID.h5, ID.npy or ID.safetensors for each "
    "task.columns.id (null: id), in place of task.columns.file");
  v(c.splits, "splits",
    "tables of feature files: a table for each fold, whose columns train, val and test name ids or "
    "files; with an empty task.validation");
  v(c.folds, "folds",
    "tables of feature files: as many parts, stratified by label and of whole groups. Fold f tests "
    "on part f, chooses its checkpoint by the next part and trains on the others",
    between(3, 100));
  v(c.fold, "fold", "the fold to train, from 0; nystrom finetune --folds all trains each",
    not_negative);
  v(c.balance, "balance",
    "classes, in training. none; weights: a rare label's examples weigh more in the loss; "
    "sampling: they come as often as those of the other labels");
  v(c.format, "format",
    "how files hold examples; null: by the recipe or by the ending of their names");
  v(c.header, "header",
    "tsv, csv: the first row names the columns; else they are numbers from 1. null: by the recipe, "
    "or true");
  v(c.columns, "columns", "which column is what");
  v(c.labels, "labels",
    "labels in the order of the model's outputs; empty: those of the training files, sorted");
  v(c.multi_label, "multi_label",
    "classification: a text has any number of labels, or none. The label is a list in JSON, or "
    "see label_separator and columns.labels. null: whether one of these is given");
  v(c.label_separator, "label_separator",
    "multi_label: what stands between the labels of a cell, such as a semicolon; an empty cell "
    "has no label. null: JSON's lists");
  v(c.threshold, "threshold",
    "multi_label: the probability from which a label counts as predicted, in metrics too. null: "
    "0.5",
    between(0.0, 1.0));
  v(c.metric, "metric",
    "decides the best checkpoint. f1: of the second of two labels, of entities, of answers; auc: "
    "the area under the ROC curve of the second of two labels, else the mean of each against the "
    "rest; loss: the lowest. null: by the recipe or kind");
  v(c.bad_rows, "bad_rows",
    "rows that cannot be read. stop: are errors; skip: are left out and counted. null: by the "
    "recipe, or stop");
  v(c.windows, "windows",
    "classification, regression: texts longer than data.sequence_length. first: their beginning "
    "alone is read; mean, max: all of it in windows, whose outputs' mean or largest counts");
  v(c.views, "views",
    "embeddings of single texts: dropout: the same text twice, with other dropout; crops: two "
    "random parts of it");
  v(c.word_cut, "word_cut",
    "tokens: how raw text is cut into words for predictions. spaces: at white space; words: "
    "punctuation marks are words too; ideographs: so is each character of a script without spaces; "
    "characters: each character is a word. null: as in the training files, else ideographs");
  v(c.max_score, "max_score",
    "embeddings: the label of a pair of equal texts; labels are divided by it (5 for STS-B)",
    positive);
  v(c.stride, "stride",
    "tokens that neighbouring windows of a long text or context share. null: 128, or a third of "
    "data.sequence_length if that is less",
    not_negative);
  v(c.max_answer_length, "max_answer_length", "questions: most tokens of an answer", at_least(1));
  v(c.whole_words, "whole_words",
    "questions: answers are whole words of the tokenizer, as align_to_words of transformers' "
    "pipeline makes them; false: whole tokens, for text without spaces between words");
  v(c.no_answer, "no_answer",
    "questions: the context may have no answer, as in SQuAD 2.0. null: false");
  v(c.no_answer_threshold, "no_answer_threshold",
    "questions: an answer is given if the logarithm of its score is at most this far below that of "
    "no answer");
}

/// The names of the built-in recipes.
std::vector<std::string> task_recipes();

/// `task` with all values that follow from its recipe and its kind: kind, header, metric, bad_rows
/// and no_answer. format, columns and labels are set if the recipe knows them. Resolving twice
/// changes nothing. `task` must have no problems.
TaskConfig resolve_task(TaskConfig task);

/// The probability from which a label counts as predicted, where a text has several.
inline double threshold_of(const TaskConfig& task) { return task.threshold.value_or(0.5); }

/// The columns of a resolved task. Missing names of text, label and, for questions, pair get the
/// default names of tables; with features file or, with task.features_folder, id do.
TaskColumns named_columns(const TaskConfig& task);

/// All problems of `task` that its options' ranges do not express, one line each. A line begins
/// with the path of the wrong option: "task.recipe 'sst' is unknown; did you mean 'sst2'?". Files
/// are not read. Empty: the task can be resolved.
Problems problems(const TaskConfig& task);

/// Whether one table holds the parts of a task: task.splits or task.folds.
bool has_folds(const TaskConfig& task);

/// Whether outputs are words of a label set, as for classification and tokens. Classes of features
/// are numbers in their files.
bool has_labels(TaskKind kind);

/// Whether files of this format hold images.
bool holds_images(std::optional<TaskFormat> format);

/// The formats that can hold a kind of task. lines, documents, and questions in tsv and csv have no
/// labels and serve predictions.
std::vector<TaskFormat> formats_of(TaskKind kind);

/// The metrics of a task of known kind, the default first. features: those of classification, then
/// those of regression.
std::vector<TaskMetric> metrics_of(const TaskConfig& task);

}  // namespace nystrom
