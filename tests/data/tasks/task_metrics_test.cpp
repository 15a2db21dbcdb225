// Metrics compared with the reference implementations, and their edge cases.
// tests/reference/check_tasks.py wrote fixtures/tasks/metrics.jsonl.
#include "data/tasks/task_metrics.h"
#include "data/tasks/answers.h"
#include "data/tasks/entities.h"
#include "tests/data/tasks/metric_cases.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Values = std::vector<double>;
using Tags = std::vector<std::string>;
using Spans = std::vector<Entity>;

TEST(TaskMetrics, EqualTheReferences) {
  std::ifstream file(testing::source_folder().string() + "/tests/fixtures/tasks/metrics.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json test = Json::parse(line), metrics = metrics_of_case(test);
    for (const auto& [name, got] : metrics.items()) {
      const Json& expected = test["expected"].at(name);
      if (expected.is_number())
        EXPECT_NEAR(expected.get<double>(), got.get<double>(), 1e-12) << name << " of " << line;
      else
        EXPECT_EQ(expected, got) << name << " of " << line;
    }
  }
  EXPECT_GT(cases, 70);
}

TEST(TaskMetrics, NothingToMeasure) {
  const ClassMetrics none = class_metrics({}, {});
  EXPECT_EQ(none.accuracy, 0);
  EXPECT_EQ(none.f1_macro, 0);
  EXPECT_EQ(none.matthews, 0);
  EXPECT_TRUE(std::isnan(pearson_correlation({}, {})));
  EXPECT_TRUE(std::isnan(spearman_correlation(Values{1}, Values{1})));
  EXPECT_EQ(score_entities({}, {}).spans.f1, 0);
  EXPECT_EQ(score_entities({}, {}).accuracy, 0);
}

TEST(TaskMetrics, CorrelationsDoNotDependOnThePowerOfTwo) {
  const Values a{1, 4, 2, 5, 3}, b{2, 1, 4, 3, 7};
  const double expected = pearson_correlation(a, b);
  for (const int exponent : {-1060, -600, -530, 600, 1020}) {
    Values scaled;
    for (const double value : a) scaled.push_back(std::ldexp(value, exponent));
    EXPECT_EQ(expected, pearson_correlation(scaled, b)) << exponent;
  }
}

TEST(TaskMetrics, ARightAnswerWithoutAWordIsNoneBesideOthers) {
  const std::vector<std::string> truths{"the", "the sea"}, articles{"the", "a"};
  EXPECT_EQ(score_answer(truths, "").exact, 0);
  EXPECT_EQ(score_answer(truths, "sea").exact, 1);
  EXPECT_EQ(score_answer(articles, "").exact, 1);
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
