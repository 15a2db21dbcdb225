// The loss of masked features: its value by a readable loop, gradients, batches and refusals.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_gradients.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

ModelConfig config_of(Pooling pooling) {
  ModelConfig config = tiny_config();
  make_sequence_block(config);
  config.head = Head::masked_features;
  config.pooling = pooling;
  return config;
}

/// Bags of 1, 7, 3 and 5 rows: fewer rows than landmarks, and more.
const Layout layout{{"1000000", "1111111", "1110000", "1111100"}};
const std::vector<std::int64_t> masked = {1, 6, 7, 9, 15};

Tensor targets() { return random_normal({5, 5}, 3); }

class MaskedFeaturesLoss : public ::testing::TestWithParam<Pooling> {};

TEST_P(MaskedFeaturesLoss, IsTheSquaredErrorOfTheMaskedRows) {
  const ModelConfig config = config_of(GetParam());
  const ModelInput input = without_padding(input_of(config, layout));
  const auto model = make_model(config, DType::f64, 1.7);
  const Tensor said = (*model)(input).logits.value();
  ASSERT_EQ(said.shape(), (Shape{16, 5}));
  const Tensor expected = targets();
  double sum = 0;
  for (std::size_t i = 0; i < masked.size(); ++i) {
    for (std::int64_t column = 0; column < 5; ++column) {
      const double difference = said.data<double>()[masked[i] * 5 + column] -
                                expected.data<double>()[static_cast<std::int64_t>(i) * 5 + column];
      sum += difference * difference;
    }
  }
  EXPECT_NEAR(model->masked_features(input, masked, expected, 40, {}).value().item(), sum / 40,
              1e-13);
}

TEST_P(MaskedFeaturesLoss, HasTheNumericalGradient) {
  const ModelConfig config = config_of(GetParam());
  const ModelInput input = without_padding(input_of(config, layout));
  const auto model = make_model(config, DType::f64, 1.7);
  const auto loss = [&] { return model->masked_features(input, masked, targets(), 7, {}); };
  expect_numerical_gradients(*model, loss);
}

TEST_P(MaskedFeaturesLoss, OfABagDoesNotDependOnItsBatch) {
  const ModelConfig config = config_of(GetParam());
  const auto model = make_model(config, DType::f64, 1.7);
  const Tensor all = targets();
  const std::vector<std::vector<std::int64_t>> rows = {{}, {0, 5, 6}, {1}, {4}};
  double sum = 0;
  for (std::size_t i = 1, begin = 0; i < 4; begin += rows[i++].size()) {
    const Layout alone{{layout.rows[i]}, {static_cast<int>(i)}};
    const auto first = static_cast<std::int64_t>(begin);
    sum += model
               ->masked_features(without_padding(input_of(config, alone)), rows[i],
                                 all.slice(0, first, first + std::ssize(rows[i])), 1, {})
               .value()
               .item();
  }
  const ModelInput together = without_padding(input_of(config, layout));
  EXPECT_NEAR(model->masked_features(together, masked, all, 1, {}).value().item(), sum, 1e-12);
}

TEST_P(MaskedFeaturesLoss, LogitsOfPaddedInputHaveItsShape) {
  const ModelConfig config = config_of(GetParam());
  const auto model = make_model(config, DType::f64);
  ModelInput input = input_of(config, Layout{{"1111", "1111"}});
  input.attention_mask = Tensor();
  const Tensor padded = (*model)(input).logits.value();
  EXPECT_EQ(padded.shape(), (Shape{2, 4, 5}));
  const ModelInput rows = without_padding(input_of(config, Layout{{"1111", "1111"}}));
  EXPECT_LE(relative_difference((*model)(rows).logits.value(), padded.reshape({8, 5})), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Poolings, MaskedFeaturesLoss,
                         ::testing::Values(Pooling::mean, Pooling::token),
                         [](const auto& test) { return enum_name(test.param); });

TEST(MaskedFeaturesModel, RefusesRowsThatSeeNoOthers) {
  ModelConfig config = config_of(Pooling::mean);
  config.attention.kind = AttentionKind::none;
  EXPECT_EQ(message_of([&] { Model model(config); }),
            "the model cannot be built: attention.kind is none, and a masked row is known from the "
            "other rows alone; choose another kind");
  config = config_of(Pooling::mean);
  config.num_hidden_layers = 0;
  EXPECT_EQ(message_of([&] { Model model(config); }),
            "the model cannot be built: num_hidden_layers is 0, and a masked row is known from the "
            "other rows alone; set it to at least 1");
  config = tiny_config();
  config.head = Head::masked_features;
  EXPECT_EQ(message_of([&] { Model model(config); }),
            "the model cannot be built: embed_dim is null, and the head "
            "NystromformerForMaskedFeatures says features");
}

}  // namespace
}  // namespace nystrom::testing
