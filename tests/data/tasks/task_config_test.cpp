// All errors in the configuration of a task, each with one exact line.
#include "data/tasks/task_config.h"
#include "tests/support/named.h"

#include <gtest/gtest.h>

namespace nystrom {
namespace {

/// Changes one option of a task.
using Change = void (*)(TaskConfig&);

struct BadConfig : testing::Named {
  Change change;
  const char* message;
};

const BadConfig bad_configs[] = {
    {"no_kind", [](TaskConfig&) {},
     "task.kind is missing; expected classification, regression, tokens, questions, choice, "
     "features or embeddings, or a task.recipe"},
    {"unknown_recipe", [](TaskConfig& task) { task.recipe = "sst"; },
     "task.recipe 'sst' is unknown; did you mean 'sst2'?; expected one of sst2, cola, mrpc, stsb, "
     "qqp, mnli, qnli, rte, imdb, trec, "
     "listops, aan, cifar10, pathfinder"},
    {"kind_beside_recipe",
     [](TaskConfig& task) {
       task.recipe = "stsb";
       task.kind = TaskKind::classification;
     },
     "task.kind classification does not fit task.recipe stsb, which is regression; leave it out"},
    {"format_of_another_kind",
     [](TaskConfig& task) {
       task.kind = TaskKind::tokens;
       task.format = TaskFormat::squad;
     },
     "task.format squad does not hold a task of kind tokens; expected one of conll, jsonl, json, "
     "lines"},
    {"metric_of_another_kind",
     [](TaskConfig& task) {
       task.kind = TaskKind::regression;
       task.metric = TaskMetric::accuracy;
     },
     "task.metric accuracy does not measure a task of kind regression; expected one of pearson, "
     "spearman, loss"},
    {"share_beside_folds",
     [](TaskConfig& task) {
       task.kind = TaskKind::features;
       task.folds = 3;
       task.validation_fraction = 0.1;
     },
     "task.validation_fraction holds examples out, but task.folds parts those of task.train; leave "
     "it out"},
    {"balance_of_several_labels",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.multi_label = true;
       task.balance = TaskBalance::weights;
     },
     "task.balance weights is for one label an example, and task.multi_label gives it any number; "
     "leave one of them out"},
    {"several_labels_of_bags",
     [](TaskConfig& task) {
       task.kind = TaskKind::features;
       task.columns.labels = {"a", "b"};
     },
     "task.multi_label is for tasks of kind classification; this one is of kind features"},
    {"name_without_header",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.header = false;
       task.columns.text = "sentence";
     },
     "task.columns.text 'sentence' is no number; without a header columns are numbers from 1"},
    {"no_choices", [](TaskConfig& task) { task.kind = TaskKind::choice; },
     "task.columns.choices is empty; name the columns of the continuations, such as [ending0, "
     "ending1]"},
    {"choices_of_another_kind",
     [](TaskConfig& task) {
       task.kind = TaskKind::regression;
       task.columns.choices = {"a", "b"};
     },
     "task.columns.choices is for tasks of kind choice; this one is of kind regression"},
    {"pair_of_words",
     [](TaskConfig& task) {
       task.kind = TaskKind::tokens;
       task.columns.pair = "b";
     },
     "task.columns.pair: a task of kind tokens has no second text"},
    {"text_and_label_of_one_column",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.columns.text = "label";
     },
     "task.columns.text and task.columns.label are both 'label'; each needs a column of its own"},
    {"pair_and_label_of_one_column",
     [](TaskConfig& task) {
       task.recipe = "rte";
       task.columns.pair = "label";
     },
     "task.columns.pair and task.columns.label are both 'label'; each needs a column of its own"},
    {"text_and_pair_of_one_column",
     [](TaskConfig& task) {
       task.kind = TaskKind::regression;
       task.columns.pair = "text";
     },
     "task.columns.text and task.columns.pair are both 'text'; each needs a column of its own"},
    {"choice_twice",
     [](TaskConfig& task) {
       task.kind = TaskKind::choice;
       task.columns.choices = {"a", "b", "a"};
     },
     "task.columns.choices has 'a' twice"},
    {"labels_of_numbers",
     [](TaskConfig& task) {
       task.kind = TaskKind::regression;
       task.labels = {"a", "b"};
     },
     "task.labels: a task of kind regression has no labels"},
    {"one_label",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.labels = {"a"};
     },
     "task.labels has 1 entry, 'a'; a choice needs two"},
    {"label_twice",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.labels = {"a", "b", "a"};
     },
     "task.labels has 'a' twice"},
    {"empty_label",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.labels = {"a", ""};
     },
     "task.labels holds an empty label"},
    {"several_labels_of_numbers",
     [](TaskConfig& task) {
       task.kind = TaskKind::regression;
       task.multi_label = true;
     },
     "task.multi_label is for tasks of kind classification; this one is of kind regression"},
    {"separator_of_one_label",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.multi_label = false;
       task.label_separator = "|";
     },
     "task.multi_label is false, and task.label_separator is for several labels per text; leave "
     "one "
     "of them out"},
    {"threshold_of_one_label",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.threshold = 0.7;
     },
     "task.threshold is for several labels per text (task.multi_label); a text with one gets the "
     "most probable: leave it out"},
    {"metric_of_one_label",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.multi_label = true;
       task.metric = TaskMetric::accuracy;
     },
     "task.metric accuracy does not measure a task of kind classification with several labels per "
     "text; expected one of f1_micro, f1_macro, mean_average_precision, exact_match, loss"},
    {"separator_in_a_label",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.label_separator = ",";
       task.labels = {"a", "b,c"};
     },
     "task.labels: 'b,c' holds task.label_separator ','; choose another one"},
    {"empty_separator",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.label_separator = "";
     },
     "task.label_separator is empty; give a character, such as ;"},
    {"separator_beside_columns",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.label_separator = "|";
       task.columns.labels = {"a", "b"};
     },
     "task.columns.labels and task.label_separator exclude each other; labels stand in one column, "
     "or in one each"},
    {"one_column_beside_several",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.columns.label = "topic";
       task.columns.labels = {"a", "b"};
     },
     "task.columns.labels and task.columns.label exclude each other; labels stand in one column, "
     "or in one each"},
    {"numbers_of_columns_without_labels",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.header = false;
       task.columns.text = "1";
       task.columns.labels = {"2", "3"};
     },
     "task.columns.labels are numbers of columns; name their labels in task.labels"},
    {"columns_of_other_labels",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.columns.labels = {"a", "b"};
       task.labels = {"a", "c"};
     },
     "task.columns.labels and task.labels name different labels; a column's name is its label: "
     "leave task.labels out"},
    {"more_labels_than_columns",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.columns.labels = {"a", "b"};
       task.labels = {"a", "b", "c"};
     },
     "task.columns.labels has 2 entries, task.labels 3; give one for each"},
    {"a_column_of_labels_twice",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.columns.labels = {"a", "a"};
     },
     "task.columns.labels has 'a' twice"},
    {"a_column_of_labels_and_text",
     [](TaskConfig& task) {
       task.kind = TaskKind::classification;
       task.columns.labels = {"a", "text"};
     },
     "task.columns.text and task.columns.labels are both 'text'; each needs a column of its own"},
    {"no_answer_elsewhere",
     [](TaskConfig& task) {
       task.kind = TaskKind::choice;
       task.columns.choices = {"a", "b"};
       task.no_answer = true;
     },
     "task.no_answer is for tasks of kind questions; this one is of kind choice"},
};

class BadTaskConfig : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadTaskConfig, IsRefusedWithOneLine) {
  TaskConfig task;
  GetParam().change(task);
  EXPECT_EQ(messages_of(problems(task)), std::vector<std::string>{GetParam().message});
}

INSTANTIATE_TEST_SUITE_P(Tasks, BadTaskConfig, ::testing::ValuesIn(bad_configs),
                         testing::case_name);

}  // namespace
}  // namespace nystrom
