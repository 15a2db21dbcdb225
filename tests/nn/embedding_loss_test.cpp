// Losses of vectors: equal to sentence-transformers', and the guards against false negatives.
#include "nn/embedding_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/fixtures.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

using Options = EmbeddingLossOptions;

struct LossCase : Named {
  Options options;
};

std::vector<LossCase> loss_cases() {
  using enum EmbeddingLoss;
  const auto kind = [](EmbeddingLoss name) { return Options{.name = name}; };
  const auto triplet_of = [](TripletDistance distance, double margin) {
    return Options{.name = triplet, .triplet_margin = margin, .triplet_distance = distance};
  };
  return {{"ranking", {}},
          {"ranking_negatives", {}},
          {"ranking_temperature", {.temperature = 0.3}},
          {"ranking_symmetric", {.symmetric = true}},
          {"cosent", kind(cosent)},
          {"angle", kind(angle)},
          {"cosine_similarity", kind(cosine_similarity)},
          {"triplet_euclidean", triplet_of(TripletDistance::euclidean, 0.7)},
          {"triplet_cosine", triplet_of(TripletDistance::cosine, 0.2)},
          {"matryoshka_ranking", {.matryoshka_dimensions = {7, 4, 2}}},
          {"matryoshka_cosent", {.name = cosent, .matryoshka_dimensions = {5, 3}}}};
}

nlohmann::json reference() {
  std::ifstream file(fixture_folder() / "embedding_losses.json");
  return nlohmann::json::parse(file);
}

class EqualToSentenceTransformers : public ::testing::TestWithParam<LossCase> {};

TEST_P(EqualToSentenceTransformers, InValueAndGradients) {
  const nlohmann::json document = reference();
  const nlohmann::json& expected = document["cases"][GetParam().name];
  const Shape shape{document["samples"].get<std::int64_t>(), document["width"].get<std::int64_t>()};
  std::vector<Var> columns;
  for (const auto& values : expected["columns"])
    columns.push_back(Var::leaf(Tensor::from(values.get<std::vector<double>>(), shape)));
  const EmbeddingTargets targets{
      Tensor::from(expected["scores"].get<std::vector<double>>(), {shape[0]}), {}};
  Tape tape;
  const Var loss = embedding_loss(GetParam().options, columns, targets);
  EXPECT_NEAR(loss.value().item(), expected["loss"].get<double>(), 1e-9);
  tape.backward(loss);
  for (std::size_t i = 0; i < columns.size(); ++i)
    EXPECT_LE(max_difference(columns[i].grad().to_doubles(),
                             expected["gradients"][i].get<std::vector<double>>()),
              1e-9);
}

INSTANTIATE_TEST_SUITE_P(Losses, EqualToSentenceTransformers, ::testing::ValuesIn(loss_cases()),
                         case_name);

Var vectors(const std::vector<double>& values, std::int64_t width) {
  return Var(Tensor::from(values, {std::ssize(values) / width, width}));
}

/// The loss of `count` samples alone, without the others.
double loss_of(const Options& options, const std::vector<Var>& columns,
               const EmbeddingTargets& targets = {}) {
  return embedding_loss(options, columns, targets).value().item();
}

TEST(MultipleNegativesRanking, TakesNoAlikeTextForANegative) {
  const Var texts = vectors({1, 0, 0, 1, 0.6, 0.8}, 2),
            positives = vectors({1, 0.1, 0.2, 1, 1, 0.1}, 2);
  const double open = loss_of({}, {texts, positives});
  const EmbeddingTargets same_positive{{}, {{0, 1, 2}, {3, 4, 3}}};
  const EmbeddingTargets own_text{{}, {{0, 1, 2}, {3, 4, 0}}};
  const EmbeddingTargets other_positive{
      {}, {{0, 1, 2}, {3, 4, 5}}, [](std::int64_t a, std::int64_t b) { return a == 0 && b == 5; }};
  const double guarded = loss_of({}, {texts, positives}, other_positive);
  EXPECT_LT(guarded, open);
  // The first positive is the third text's own one too, so that each is left out for the other.
  EXPECT_LT(loss_of({}, {texts, positives}, same_positive), guarded);
  EXPECT_EQ(loss_of({}, {texts, positives}, own_text), guarded);
}

TEST(MultipleNegativesRanking, LeavesOutCandidatesBeyondTheMargin) {
  const Var texts = vectors({1, 0, 0, 1}, 2), positives = vectors({0.6, 0.8, 1, 0}, 2);
  // The second positive is more similar to the first text (1) than its own (0.6).
  const double open = loss_of({}, {texts, positives});
  const double guarded = loss_of({.false_negative_margin = 0.1}, {texts, positives});
  EXPECT_LT(guarded, open);
  EXPECT_EQ(loss_of({.false_negative_margin = 0.9}, {texts, positives}), open);
}

TEST(EmbeddingLoss, IsFiniteForVectorsOfZeros) {
  for (const LossCase& each : loss_cases()) {
    SCOPED_TRACE(each.name);
    std::vector<Var> columns;
    const bool three = each.options.name == EmbeddingLoss::triplet;
    for (int i = 0; i < (three ? 3 : 2); ++i)
      columns.push_back(Var::leaf(Tensor::zeros({3, 7}, DType::f64)));
    Tape tape;
    const Var loss = embedding_loss(each.options, columns,
                                    {Tensor::from(std::vector<double>{0, 0.5, 1}, {3}), {}});
    tape.backward(loss);
    EXPECT_TRUE(std::isfinite(loss.value().item()));
    for (const double value : columns[0].grad().to_doubles()) EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace nystrom::testing
