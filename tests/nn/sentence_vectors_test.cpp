// Poolings of sentence vectors, and the layers behind them.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/model.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

/// The hidden states of the one row "1…1", and its vector.
struct Pooled {
  std::vector<double> hidden, vector;
};

Pooled pooled(SentencePooling pooling, const std::string& row) {
  const ModelConfig config = tiny_config();
  const auto model = make_model(config, DType::f64);
  const ModelInput input = input_of(config, {{row}, {}, 0});
  return {(*model)(input).last_hidden_state.value().to_doubles(),
          model->sentence_vectors(input, pooling).value().to_doubles()};
}

/// Σ weight(i) · hidden(i) over five tokens.
void expect_weighted(SentencePooling pooling, const std::vector<double>& weights) {
  const auto [hidden, vector] = pooled(pooling, "11111");
  for (std::size_t column = 0; column < vector.size(); ++column) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      sum += weights[i] * hidden[i * vector.size() + column];
    EXPECT_NEAR(vector[column], sum, 1e-10) << enum_name(pooling);
  }
}

TEST(SentenceVectors, AreSumsOfHiddenStates) {
  expect_weighted(SentencePooling::cls, {1, 0, 0, 0, 0});
  expect_weighted(SentencePooling::lasttoken, {0, 0, 0, 0, 1});
  expect_weighted(SentencePooling::mean, {0.2, 0.2, 0.2, 0.2, 0.2});
  const double root = 1 / std::sqrt(5.0);
  expect_weighted(SentencePooling::mean_sqrt_len_tokens, {root, root, root, root, root});
  expect_weighted(SentencePooling::weightedmean,
                  {1 / 15.0, 2 / 15.0, 3 / 15.0, 4 / 15.0, 5 / 15.0});
}

TEST(SentenceVectors, MaxIsTheLargestOfEachColumn) {
  const auto [hidden, vector] = pooled(SentencePooling::max, "111");
  for (std::size_t column = 0; column < vector.size(); ++column) {
    double largest = hidden[column];
    for (std::size_t i = 1; i < 3; ++i)
      largest = std::max(largest, hidden[i * vector.size() + column]);
    EXPECT_EQ(vector[column], largest);
  }
}

TEST(SentenceVectors, SegmentsWithoutTokensDoNotCount) {
  // As many segments as tokens at most: the mean over them is that over the tokens.
  const auto landmarks = pooled(SentencePooling::landmarks, "11"),
             mean = pooled(SentencePooling::mean, "11");
  ASSERT_GT(tiny_config().attention.num_landmarks, 2);
  EXPECT_LE(max_difference(landmarks.vector, mean.vector), 1e-10);
}

TEST(SentenceVectors, DoNotDependOnPadding) {
  const ModelConfig config = tiny_config();
  const auto model = make_model(config, DType::f64);
  for (const auto& [pooling, name] : enum_names(SentencePooling{})) {
    const auto alone = model->sentence_vectors(input_of(config, {{"111"}, {}, 0}), pooling);
    const auto padded = model->sentence_vectors(input_of(config, {{"11100"}, {}, 0}), pooling);
    EXPECT_LE(max_difference(alone.value(), padded.value()), 1e-10) << name;
  }
}

TEST(SentenceVectors, PassThroughTheLayersBehindThem) {
  ModelConfig config = tiny_config();
  config.embedding.dense = {{5, Activation::relu}};
  config.embedding.projection = 3;
  config.embedding.projection_act = Activation::tanh;
  const auto model = make_model(config, DType::f64);
  const Var vector =
      model->sentence_vectors(input_of(config, {{"1111"}, {}, 0}), SentencePooling::mean);
  EXPECT_EQ(vector.shape(), (Shape{1, 3}));
  for (const double value : vector.value().to_doubles()) EXPECT_LT(std::abs(value), 1);
}

}  // namespace
}  // namespace nystrom::testing
