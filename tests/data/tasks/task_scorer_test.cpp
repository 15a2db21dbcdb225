// The metrics of a task computed from outputs, and statistics of its data.
#include "data/tasks/task_scorer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/tasks/task_statistics.h"
#include "tests/data/tasks/letter_tokenizer.h"
#include "tests/support/errors.h"

namespace nystrom {
namespace {

using testing::message_of;
using Named = std::vector<std::pair<std::string, double>>;

const LetterTokenizer letters;

TaskDataset dataset_of(TaskConfig task, const std::vector<Example>& examples,
                       std::vector<std::string> labels = {}) {
  const TaskEncoder encoder(resolve_task(std::move(task)), LabelSet(std::move(labels)), letters,
                            16);
  return TaskDataset::from(encoder, examples, true);
}

TaskConfig task_of(TaskKind kind) { return {.kind = kind, .stride = 2}; }

void add(TaskScorer& scorer, const TaskDataset& data, const Batch& batch, const Tensor& first,
         const Tensor& last = {}) {
  for (const SampleOutputs& outputs : outputs_by_sample(data, batch.samples, first, last))
    scorer.add(outputs);
}

/// The scores when one batch has all samples and these outputs.
TaskScores scores_of(TaskDataset dataset, const std::vector<float>& outputs, const Shape& shape,
                     double loss = 0) {
  const auto data = std::make_shared<TaskDataset>(std::move(dataset));
  TaskEvaluationLoader loader(data, {});
  TaskScorer scorer(data);
  add(scorer, *data, *loader.next(), Tensor::from(outputs, shape));
  return scorer.scores(loss);
}

std::vector<Example> labelled(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::vector<Example> examples;
  for (const auto& [text, label] : rows)
    examples.push_back({.text = text, .label = label, .labelled = true});
  return examples;
}

TaskDataset classes_of(const std::vector<std::pair<std::string, std::string>>& rows,
                       std::vector<std::string> labels) {
  return dataset_of(task_of(TaskKind::classification), labelled(rows), std::move(labels));
}

/// The text "a" for 0, "b" for 1 and so on.
std::string letter(std::size_t i) { return std::string(1, static_cast<char>('a' + i)); }

/// Texts "a", "b" … with these values.
std::vector<Example> with_values(const std::vector<double>& values) {
  std::vector<Example> examples;
  for (const double value : values)
    examples.push_back({.text = letter(examples.size()), .value = value, .labelled = true});
  return examples;
}

TEST(TaskScorer, ClassesOfTwoAndOfMore) {
  TaskConfig f1 = task_of(TaskKind::classification);
  f1.metric = TaskMetric::f1;
  const auto scores = scores_of(
      dataset_of(f1, labelled({{"a", "n"}, {"b", "p"}, {"c", "p"}, {"d", "p"}}), {"n", "p"}),
      {1, 0, 0, 1, 0, 1, 1, 0}, {4, 2});
  ASSERT_EQ(scores.values.size(), 7);
  EXPECT_EQ(scores.values[6].first, "auc");
  EXPECT_EQ(scores.classes.size(), 2U);
  EXPECT_EQ(scores.values[0], (std::pair<std::string, double>("accuracy", 0.75)));
  EXPECT_EQ(scores.metric, "f1");
  EXPECT_NEAR(scores.decisive, 0.8, 1e-12);
  const auto three =
      scores_of(classes_of({{"a", "x"}, {"b", "z"}}, {"x", "y", "z"}), {1, 0, 0, 0, 0, 1}, {2, 3});
  EXPECT_EQ(three.values.size(), 6);
  EXPECT_EQ(three.metric, "accuracy");
  EXPECT_EQ(three.decisive, 1);
  EXPECT_EQ(message_of([&] {
              TaskScorer(std::make_shared<TaskDataset>(
                  dataset_of(f1, labelled({{"a", "x"}}), {"x", "y", "z"})));
            }),
            "task.metric f1 does not measure this task: it has 3 labels; expected one of accuracy, "
            "f1_macro, matthews, auc, balanced_accuracy, kappa, loss");
}

/// Texts "a", "b" … with these labels.
std::vector<Example> with_labels(const std::vector<std::vector<std::string>>& sets) {
  std::vector<Example> examples;
  for (const auto& labels : sets)
    examples.push_back({.text = letter(examples.size()), .labels = labels, .labelled = true});
  return examples;
}

TEST(TaskScorer, SetsOfLabelsByTheThreshold) {
  TaskConfig task = task_of(TaskKind::classification);
  task.multi_label = true;
  const auto examples = with_labels({{"y", "x"}, {}, {"y"}});
  const std::vector<float> logits{2, -1, 0.5, -3, 0, 1};
  const auto scores = scores_of(dataset_of(task, examples, {"x", "y"}), logits, {3, 2});
  // Predicted: {x}, {x}, {x, y}.
  EXPECT_EQ(scores.metric, "f1_micro");
  EXPECT_NEAR(scores.decisive, 4.0 / 7, 1e-12);
  ASSERT_EQ(scores.values.size(), 4u);
  EXPECT_NEAR(scores.values[1].second, (2.0 / 4 + 2.0 / 3) / 2, 1e-12);
  EXPECT_NEAR(scores.values[2].second, 1, 1e-12);
  EXPECT_EQ(scores.values[3].second, 0);
  EXPECT_TRUE(scores.confusion.empty());
  task.threshold = 0.25;  // a logit of −1.1
  task.metric = TaskMetric::exact_match;
  const auto low = scores_of(dataset_of(task, examples, {"x", "y"}), logits, {3, 2});
  EXPECT_NEAR(low.decisive, 1.0 / 3, 1e-12);
  const auto dataset = dataset_of(task, examples, {"x", "y"});
  EXPECT_EQ(dataset.outputs(), 2);
  EXPECT_NEAR(constant_scores(dataset).values[0].second, 2.0 * 2 / (3 + 3), 1e-12);
  EXPECT_NEAR(constant_loss(dataset), std::log(3.0) - 2.0 / 3 * std::log(2.0), 1e-12);
  const TaskStatistics report = task_statistics(dataset, dataset);
  EXPECT_EQ(report.train.without_label, 1);
  EXPECT_EQ(report.train.labels,
            (std::vector<std::pair<std::string, std::int64_t>>{{"x", 1}, {"y", 2}}));
}

TEST(TaskScorer, TextsAlikeWithOtherSetsOfLabelsContradictEachOther) {
  TaskConfig task = task_of(TaskKind::classification);
  task.multi_label = true;
  auto examples = with_labels({{"x", "y"}, {"y", "x"}, {"x"}});
  for (Example& example : examples) example.text = "a";
  const auto data = dataset_of(task, examples, {"x", "y"});
  const TaskStatistics report = task_statistics(data, data);
  EXPECT_EQ(report.train.duplicates, 2);
  EXPECT_EQ(report.train.contradictions, 1);
}

TEST(TaskScorer, TheLossDecidesWhereItIsTheMetric) {
  TaskConfig task = task_of(TaskKind::classification);
  task.metric = TaskMetric::loss;
  const auto data = dataset_of(task, labelled({{"a", "x"}, {"b", "y"}}), {"x", "y"});
  const TaskScores scores = scores_of(data, {1, 0, 0, 1}, {2, 2}, 0.25);
  EXPECT_EQ(scores.metric, "loss");
  EXPECT_EQ(scores.decisive, 0.25);
  EXPECT_EQ(scores.value("accuracy"), 1);
}

TEST(TaskScorer, WindowsOfATextCountOnce) {
  TaskConfig task = task_of(TaskKind::classification);
  const auto examples = labelled({{"abcdefghijklmnopqrst", "y"}, {"short", "x"}});
  const auto with = [&](TaskWindows windows) {
    task.windows = windows;
    // The batch is sorted by length: the short text, then two windows in which other labels win.
    return scores_of(dataset_of(task, examples, {"x", "y"}), {1, 0, 9, 8, 0, 2}, {3, 2}).decisive;
  };
  EXPECT_EQ(with(TaskWindows::mean), 1);   // means 4.5 and 5
  EXPECT_EQ(with(TaskWindows::max), 0.5);  // maxima 9 and 8
}

TEST(TaskScorer, ConstantScoresIgnoreTheInput) {
  const auto classes = classes_of({{"a", "x"}, {"b", "x"}, {"c", "y"}}, {"x", "y"});
  EXPECT_NEAR(constant_scores(classes).decisive, 2.0 / 3, 1e-12);
  const TaskScores of_values =
      constant_scores(dataset_of(task_of(TaskKind::regression), with_values({0, 1, 2})));
  EXPECT_EQ(of_values.decisive, 0) << "a constant correlates with nothing";
  EXPECT_NEAR(of_values.values[2].second, 2.0 / 3, 1e-12) << "the variance";
}

TEST(TaskScorer, Numbers) {
  const auto examples = with_values({0, 1, 2});
  const auto scores =
      scores_of(dataset_of(task_of(TaskKind::regression), examples), {0, 2, 4}, {3, 1});
  ASSERT_EQ(scores.values.size(), 3);
  EXPECT_NEAR(scores.values[0].second, 1, 1e-12);
  EXPECT_NEAR(scores.values[1].second, 1, 1e-12);
  EXPECT_NEAR(scores.values[2].second, 5.0 / 3, 1e-12);
  const auto constant =
      scores_of(dataset_of(task_of(TaskKind::regression), examples), {2, 2, 2}, {3});
  EXPECT_TRUE(std::isnan(constant.decisive));
  EXPECT_TRUE(better(-0.5, constant.decisive));
  EXPECT_FALSE(better(constant.decisive, -0.5));
}

TEST(TaskScorer, WordsThatWereCutOffCountAsOutside) {
  Example example{
      .words = {"abcdefghijkl", "mn", "o"}, .labels = {"B-X", "B-X", "B-X"}, .labelled = true};
  std::vector<float> outputs(2 * 16, 0);
  outputs[2 * 1 + 1] = 1;   // first word
  outputs[2 * 13 + 1] = 1;  // second word; the third has no token
  const auto scores = scores_of(dataset_of(task_of(TaskKind::tokens), {example}, {"O", "B-X"}),
                                outputs, {1, 16, 2});
  EXPECT_EQ(scores.values[0].first, "f1");
  EXPECT_NEAR(scores.decisive, 0.8, 1e-12);
  EXPECT_EQ(scores.values[1], (std::pair<std::string, double>("precision", 1)));
  EXPECT_NEAR(scores.values[3].second, 2.0 / 3, 1e-12);
}

TEST(TaskScorer, WordsWithoutATokenCountForNoBaseline) {
  TaskConfig task = task_of(TaskKind::tokens);
  task.metric = TaskMetric::accuracy;
  const auto data_of = [&](const std::vector<std::string>& words) {
    const Example example{
        .words = words, .labels = {"B-X", "O", "O", "O", "B-Y"}, .labelled = true};
    return dataset_of(task, {example}, {"O", "B-X", "B-Y"});
  };
  EXPECT_EQ(constant_scores(data_of({"a", " ", " ", " ", "b"})).decisive, 0.5);
  EXPECT_EQ(message_of([&] {
              require_targets(data_of({" ", " ", " ", " ", " "}), "the data");
            }),
            "no word of the data has a token; correct the words, or choose another tokenizer");
}

TEST(TaskScorer, QuestionsOverTheirWindows) {
  Example example{
      .text = "q", .pair = "abcdefghijklm no", .answers = {{"no", 14}}, .labelled = true};
  const auto data =
      std::make_shared<TaskDataset>(dataset_of(task_of(TaskKind::questions), {example}));
  ASSERT_EQ(data->size(), 2);
  TaskScorer scorer(data);
  TaskLoaderOptions one_by_one{.micro_batch_size = 1};
  TaskEvaluationLoader loader(data, one_by_one);
  while (const auto batch = loader.next()) {
    const Shape shape{1, batch->tokens};
    Tensor start = Tensor::zeros(shape, DType::f32), end = start.clone();
    start.data<float>()[batch->start_positions.data<std::int64_t>()[0]] = 5;
    end.data<float>()[batch->end_positions.data<std::int64_t>()[0]] = 5;
    add(scorer, *data, *batch, start, end);
  }
  EXPECT_EQ(scorer.scores(0).values, (Named{{"f1", 1}, {"exact_match", 1}}));
}

TEST(TaskScorer, WantsEverySampleOnce) {
  const auto data = std::make_shared<TaskDataset>(classes_of({{"a", "x"}, {"b", "y"}}, {"x", "y"}));
  TaskScorer scorer(data);
  const auto batch =
      make_task_batch(*data, std::vector<std::int64_t>{1}, std::vector<std::int64_t>{1});
  const Tensor outputs = Tensor::from(std::vector<float>{0, 1}, {1, 2});
  add(scorer, *data, batch, outputs);
  EXPECT_EQ(message_of([&] { add(scorer, *data, batch, outputs); }),
            "TaskScorer: sample 1 was added twice");
  EXPECT_EQ(message_of([&] { scorer.scores(0); }), "TaskScorer: sample 0 was not added");
}

TEST(TaskStatistics, CountsLabelsDuplicatesAndOverlap) {
  const auto task = task_of(TaskKind::classification);
  const auto train = dataset_of(
      task, labelled({{"a", "x"}, {"b", "y"}, {"a", "x"}, {"b", "x"}, {"abcdefghijklmnopq", "x"}}),
      {"x", "y", "z"});
  const auto validation = dataset_of(task, labelled({{"a", "x"}, {"c", "y"}}), {"x", "y", "z"});
  const TaskStatistics report = task_statistics(train, validation);
  using Counts = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(report.train.labels, (Counts{{"x", 4}, {"y", 1}, {"z", 0}}));
  EXPECT_EQ(report.train.duplicates, 2);
  EXPECT_EQ(report.train.contradictions, 1);
  EXPECT_EQ(report.train.median_length, 3);
  EXPECT_EQ(report.overlap, 1);
  EXPECT_EQ(
      task_warnings(report),
      (std::vector<std::string>{
          "training: 20 % of the examples are cut (1 of 5; the longest has 19); raise "
          "data.sequence_length; single texts with a label or a number may be read in windows "
          "(task.windows)",
          "training: 1 examples have the inputs of an earlier one and another label",
          "training: the label 'z' never occurs", "validation: the label 'z' never occurs",
          "validation: 1 of 2 examples are in the training data too; their score is no test"}));
}

TEST(TaskStatistics, KnowsQuestionsAndNumbers) {
  std::vector<Example> questions(
      2, Example{.text = "q", .pair = "abcdefghijklmnopqrst", .labelled = true});
  questions[0].answers = {{"st", 18}};
  TaskConfig task = task_of(TaskKind::questions);
  task.no_answer = true;
  const auto data = dataset_of(task, questions);
  const TaskStatistics report = task_statistics(data, data);
  EXPECT_EQ(report.train.duplicates, 1);
  EXPECT_EQ(report.train.encoding.examples, 2);
  EXPECT_EQ(report.train.encoding.samples, data.size());
  const auto values = dataset_of(task_of(TaskKind::regression), with_values({1, 4}));
  EXPECT_EQ(task_statistics(values, values).train.mean, 2.5);
  EXPECT_EQ(task_statistics(values, values).train.values, 2);
}

TEST(TaskStatistics, SaysWhatIsCutAndNamesTheFirst) {
  const auto texts = classes_of({{"a", "x"}, {"abcdefghijklmnopq", "x"}}, {"x", "y"});
  EXPECT_EQ(describe_cut(TaskKind::classification, texts.counts(), 16),
            "1 cut to 16 tokens (50.0 %; the first: the example 'abcdefghijklmnopq')");
  EXPECT_EQ(task_statistics(texts, texts).train.median_length, (3 + 19) / 2.0);
  Example example{.text = "abcdefgh", .pair = "xyz"};
  const auto questions = dataset_of(task_of(TaskKind::questions), {example});
  EXPECT_EQ(
      describe_cut(TaskKind::questions, questions.counts(), 16),
      "1 with a question cut to half of a window (100.0 %; the first: the example 'abcdefgh')");
  EXPECT_EQ(task_statistics(questions, questions).train.median_length, 14)
      << "as it would be if nothing had been cut";
  EXPECT_EQ(describe_cut(TaskKind::classification, EncodingCounts(), 16), "");
}

TEST(TaskStatistics, WarnsOfBlankTexts) {
  const auto train = classes_of({{"a", "x"}, {" ", "y"}, {"", "y"}}, {"x", "y"});
  const auto validation = classes_of({{"b", "x"}, {"c", "y"}}, {"x", "y"});
  EXPECT_EQ(task_warnings(task_statistics(train, validation)),
            std::vector<std::string>{"training: 2 examples have an empty text, or one of white "
                                     "space alone; the first: the example ' '"});
}

TEST(TaskStatistics, WarnsOfALabelThatLooksLikeAHeader) {
  auto task = task_of(TaskKind::classification);
  const std::vector<std::string> labels{"label", "x", "y"};
  const auto rows = labelled({{"sentence", "label"}, {"a", "x"}, {"b", "y"}, {"c", "x"}});
  const auto validation =
      dataset_of(task, labelled({{"d", "x"}, {"e", "label"}, {"f", "y"}}), labels);
  EXPECT_EQ(task_warnings(task_statistics(dataset_of(task, rows, labels), validation)),
            std::vector<std::string>{});
  task.header = false;
  EXPECT_EQ(
      task_warnings(task_statistics(dataset_of(task, rows, labels), validation)),
      std::vector<std::string>{"training: only the first row has the label 'label'; if it "
                               "names the columns, set task.header: true, or remove it from a file "
                               "of words"});
}

TEST(Labels, AreAlikeInOtherFormsOfANumber) {
  EXPECT_EQ(labels_alike({"1", "1.0", "10", "true"}),
            (std::vector{std::pair(std::string("1"), std::string("1.0"))}));
}

TEST(TaskStatistics, WarnsOfLabelsThatAreAlike) {
  const std::vector<std::string> labels{"Pos", "caf\u00e9", "cafe\u0301",
                                        "neg", "pos",       "pos\u00a0"};
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::size_t i = 0; i < labels.size(); ++i) rows.emplace_back(letter(i), labels[i]);
  const auto train = classes_of(rows, labels);
  const auto warning = [](const std::string& first, const std::string& second) {
    return "the labels '" + first + "' and '" + second +
           "' differ only in white space, characters without width, case, Unicode form or the "
           "form of a number; if they mean the same, correct the files";
  };
  std::vector<std::string> warnings = task_warnings(task_statistics(train, train));
  std::erase_if(warnings, [](const std::string& line) { return !line.starts_with("the labels "); });
  EXPECT_EQ(warnings, (std::vector<std::string>{warning(labels[1], labels[2]),
                                                warning("Pos", "pos"), warning("Pos", labels[5])}));
}

TEST(TaskStatistics, WarnsOfConstantValues) {
  const auto values_of = [](const std::vector<double>& values) {
    return dataset_of(task_of(TaskKind::regression), with_values(values));
  };
  std::vector<std::string> warnings =
      task_warnings(task_statistics(values_of({1, 2}), values_of({0.5, 0.5, 0.5})));
  std::erase_if(warnings, [](const std::string& line) {
    return line.find("training data too") != line.npos;
  });
  EXPECT_EQ(warnings,
            std::vector<std::string>{
                "validation: all values are 0.5; the correlation with them is undefined"});
}

}  // namespace
}  // namespace nystrom
