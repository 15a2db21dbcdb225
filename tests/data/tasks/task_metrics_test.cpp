// Metrics compared with the reference implementations, and their edge cases.
// tests/reference/check_tasks.py wrote fixtures/tasks/metrics.jsonl.
#include "data/tasks/task_metrics.h"
#include "data/tasks/answers.h"
#include "data/tasks/entities.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Classes = std::vector<std::int64_t>;
using Values = std::vector<double>;
using Tags = std::vector<std::string>;
using Spans = std::vector<Entity>;

void expect_number(const Json& expected, double got, const Json& test) {
  if (expected.is_null())
    EXPECT_TRUE(std::isnan(got)) << test;
  else
    EXPECT_NEAR(expected.get<double>(), got, 1e-12) << test;
}

void check_classes(const Json& test) {
  const auto truth = test["truth"].get<Classes>(), predicted = test["predicted"].get<Classes>();
  const Json& expected = test["expected"];
  const PrecisionRecall binary = binary_f1(truth, predicted);
  expect_number(expected["accuracy"], accuracy(truth, predicted), test);
  expect_number(expected["precision"], binary.precision, test);
  expect_number(expected["recall"], binary.recall, test);
  expect_number(expected["f1"], binary.f1, test);
  expect_number(expected["f1_macro"], macro_f1(truth, predicted), test);
  expect_number(expected["matthews"], matthews_correlation(truth, predicted), test);
}

void check_label_sets(const Json& test) {
  const LabelSets sets{test["labels"], test["truth"], test["predicted"], test["scores"]};
  const Json& expected = test["expected"];
  expect_number(expected["f1_micro"], micro_f1(sets), test);
  expect_number(expected["f1_macro"], macro_f1(sets), test);
  expect_number(expected["mean_average_precision"], mean_average_precision(sets), test);
  expect_number(expected["exact_match"], subset_accuracy(sets), test);
}

void check_values(const Json& test) {
  const auto truth = test["truth"].get<Values>(), predicted = test["predicted"].get<Values>();
  expect_number(test["expected"]["pearson"], pearson_correlation(truth, predicted), test);
  expect_number(test["expected"]["spearman"], spearman_correlation(truth, predicted), test);
}

void check_answers(const Json& test) {
  const auto predicted = test["predicted"].get<std::string>();
  const AnswerScore score = score_answer(test["truth"].get<Tags>(), predicted);
  EXPECT_EQ(normalize_answer(predicted), test["expected"]["normalized"]) << test;
  expect_number(test["expected"]["exact"], score.exact, test);
  expect_number(test["expected"]["f1"], score.f1, test);
}

void check_entities(const Json& test) {
  using Sentences = std::vector<Tags>;
  const EntityScores scores =
      score_entities(test["truth"].get<Sentences>(), test["predicted"].get<Sentences>());
  const Json& expected = test["expected"];
  expect_number(expected["precision"], scores.spans.precision, test);
  expect_number(expected["recall"], scores.spans.recall, test);
  expect_number(expected["f1"], scores.spans.f1, test);
  expect_number(expected["accuracy"], scores.accuracy, test);
}

TEST(TaskMetrics, EqualTheReferences) {
  std::ifstream file(testing::source_folder().string() + "/tests/fixtures/tasks/metrics.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json test = Json::parse(line);
    const std::string kind = test["kind"];
    kind == "classes"      ? check_classes(test)
    : kind == "label_sets" ? check_label_sets(test)
    : kind == "values"     ? check_values(test)
    : kind == "answers"    ? check_answers(test)
                           : check_entities(test);
  }
  EXPECT_GT(cases, 70);
}

TEST(TaskMetrics, NothingToMeasure) {
  EXPECT_EQ(accuracy({}, {}), 0);
  EXPECT_EQ(binary_f1({}, {}).f1, 0);
  EXPECT_EQ(macro_f1({}, {}), 0);
  EXPECT_EQ(matthews_correlation({}, {}), 0);
  EXPECT_TRUE(std::isnan(pearson_correlation({}, {})));
  EXPECT_TRUE(std::isnan(spearman_correlation(Values{1}, Values{1})));
  EXPECT_EQ(score_entities({}, {}).spans.f1, 0);
  EXPECT_EQ(score_entities({}, {}).accuracy, 0);
}

TEST(TaskMetrics, WordsWithoutATokenArePassedOver) {
  const std::vector<Tags> truth{{"B-X", "I-X", "I-X", "O"}}, predicted{{"B-X", "", "I-X", "O"}};
  const EntityScores scores = score_entities(truth, predicted);
  EXPECT_EQ(scores.spans.f1, 1);
  EXPECT_EQ(scores.accuracy, 1);
  const std::vector<Tags> wrong{{"B-X", "", "O", "O"}};
  EXPECT_NEAR(score_entities(truth, wrong).accuracy, 2.0 / 3, 1e-15);
}

TEST(TaskMetrics, FrequentLabelsAreTheBestConstantPrediction) {
  LabelSets sets{3, {1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1}, {}, {}};
  predict_frequent_labels(sets);
  EXPECT_EQ(sets.predicted, (std::vector<std::uint8_t>{1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0}));
  EXPECT_NEAR(micro_f1(sets), 2.0 * 5 / (6 + 8), 1e-12);
  LabelSets empty{2, {0, 0}, {}, {}};
  predict_frequent_labels(empty);
  EXPECT_EQ(empty.predicted, (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(micro_f1(LabelSets{}), 0);
}

TEST(TaskMetrics, ScoresOfADivergedModelAreTheLowest) {
  EXPECT_NEAR(mean_average_precision({1, {1, 0, 1}, {0, 0, 0}, {NAN, 1, 2}}), (1 + 2.0 / 3) / 2,
              1e-12);
}

TEST(TaskMetrics, ASigmoidNeitherOverflowsNorIsMoreThanOne) {
  EXPECT_EQ(sigmoid(0), 0.5);
  EXPECT_EQ(sigmoid(1000), 1);
  EXPECT_EQ(sigmoid(-1000), 0);
  EXPECT_NEAR(sigmoid(-2), 1 / (1 + std::exp(2)), 1e-16);
  EXPECT_TRUE(std::isnan(sigmoid(NAN)));
}

TEST(TaskMetrics, ACorrelationWithNotANumberIsNone) {
  const Values truth{1, 2, 3}, broken{1, NAN, 3};
  EXPECT_TRUE(std::isnan(pearson_correlation(truth, broken)));
  EXPECT_TRUE(std::isnan(spearman_correlation(truth, broken)));
}

TEST(TaskMetrics, ARightAnswerOfSeveralSuffices) {
  const Tags truths{"Denver Broncos", "the Broncos"};
  EXPECT_EQ(score_answer(truths, "Broncos!").exact, 1);
  EXPECT_NEAR(score_answer(truths, "Broncos of Denver").f1, 0.8, 1e-12);
}

TEST(TaskMetrics, SpansOfEveryScheme) {
  EXPECT_EQ(tagged_entities(Tags{"B-PER", "I-PER", "O", "B-LOC"}),
            (Spans{{"PER", 0, 2}, {"LOC", 3, 4}}));
  EXPECT_EQ(tagged_entities(Tags{"I-PER", "I-PER", "B-PER", "I-LOC"}),
            (Spans{{"PER", 0, 2}, {"PER", 2, 3}, {"LOC", 3, 4}}));
  EXPECT_EQ(tagged_entities(Tags{"S-X", "B-X", "E-X", "I-X", "E-X", "E-X"}),
            (Spans{{"X", 0, 1}, {"X", 1, 3}, {"X", 3, 5}, {"X", 5, 6}}));
  EXPECT_EQ(tagged_entities(Tags{"U-X", "U-X", "B-X", "I-X", "L-X", "I-X"}),
            (Spans{{"X", 0, 1}, {"X", 1, 2}, {"X", 2, 5}, {"X", 5, 6}}));
  EXPECT_EQ(tagged_entities(Tags{"B-X", "M-X", "E-X", "S-X"}), (Spans{{"X", 0, 3}, {"X", 3, 4}}));
  EXPECT_EQ(tagged_entities(Tags{"I", "I", "B"}), (Spans{{"_", 0, 2}, {"_", 2, 3}}));
  EXPECT_TRUE(tagged_entities(Tags{"O", "O"}).empty());
}

TEST(TaskMetrics, TagsOfEntities) {
  for (const char* tag : {"O", "B-PER", "I-A-B", "E-X", "S-X", "L-X", "U-X", "M-X"})
    EXPECT_TRUE(is_entity_tag(tag)) << tag;
  for (const char* tag : {"", "o", "B", "B-", "X-PER", "BPER", "NN"})
    EXPECT_FALSE(is_entity_tag(tag)) << tag;
}

}  // namespace
}  // namespace nystrom
