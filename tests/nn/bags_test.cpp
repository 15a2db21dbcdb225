// Poolings of bags of features: their gradients, ragged batches, refusals and attention maps.
#include <gtest/gtest.h>

#include "nn/attention_diagnostics.h"
#include "nn/attention_map.h"
#include "tests/support/errors.h"
#include "tests/support/model_gradients.h"
#include "tests/support/models.h"
#include "tests/support/named.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  void (*change)(ModelConfig&);
};

using C = ModelConfig;

void none(C& c) { c.attention.kind = AttentionKind::none; }

const Case cases[] = {
    {"token", [](C& c) { c.pooling = Pooling::token; }},
    {"token_softmax",
     [](C& c) { c.pooling = Pooling::token, c.attention.kind = AttentionKind::softmax; }},
    {"token_queries_and_keys",
     [](C& c) {
       c.pooling = Pooling::token;
       c.attention.landmark_source = LandmarkSource::queries_and_keys;
       c.attention.conv_kernel_size = 3;
     }},
    {"attention", [](C& c) { c.pooling = Pooling::attention; }},
    {"attention_only", [](C& c) { c.pooling = Pooling::attention, c.num_hidden_layers = 0; }},
    {"attention_none", [](C& c) { c.pooling = Pooling::attention, none(c); }},
    {"mean_none", [](C& c) { c.pooling = Pooling::mean, none(c); }},
    {"token_one_layer_none",
     [](C& c) {
       c.pooling = Pooling::token;
       c.attention.layers = {{"0", AttentionKind::none}};
     }},
};

ModelConfig config_of(const Case& test) {
  ModelConfig config = tiny_config();
  make_sequence_block(config);
  config.head = Head::sequence_classification;
  config.labels = {"a", "b", "c"};
  test.change(config);
  return config;
}

/// Bags of 1, 7, 3 and 5 rows: fewer rows than landmarks, and more.
const Layout ragged{{"1000000", "1111111", "1110000", "1111100"}};

ModelInput rows_of(const ModelConfig& config, const Layout& layout) {
  return without_padding(input_of(config, layout));
}

class BagPooling : public ::testing::TestWithParam<Case> {};

TEST_P(BagPooling, HasTheNumericalGradient) {
  const ModelConfig config = config_of(GetParam());
  const ModelInput input = rows_of(config, ragged);
  for (const bool logits_only : {true, false}) {
    const auto model = make_model(config, DType::f64, 1.7);
    RunContext run{.logits_only = logits_only};
    const auto loss = [&] { return weighted_sum((*model)(input, run).logits); };
    expect_numerical_gradients(*model, loss);
  }
}

TEST_P(BagPooling, OfABagDoesNotDependOnItsBatch) {
  const ModelConfig config = config_of(GetParam());
  const auto model = make_model(config, DType::f64, 1.7);
  const Tensor together = (*model)(rows_of(config, ragged)).logits.value();
  for (std::size_t i = 0; i < ragged.rows.size(); ++i) {
    const Layout alone{{ragged.rows[i]}, {static_cast<int>(i)}};
    const auto row = static_cast<std::int64_t>(i);
    EXPECT_LE(relative_difference((*model)(rows_of(config, alone)).logits.value(),
                                  together.slice(0, row, row + 1)),
              1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BagPooling, ::testing::ValuesIn(cases), case_name);

TEST(BagPooling, RefusesWhatHasNoMeaning) {
  const auto message = [](void (*change)(ModelConfig&)) {
    return message_of([&] { Model(config_of({"", change})); });
  };
  EXPECT_EQ(message([](C& c) { c.pooling = Pooling::token, c.num_hidden_layers = 0; }),
            "the model cannot be built: pooling is token, but there are no layers through which it "
            "sees the features; set num_hidden_layers to at least 1, or pooling to attention");
  EXPECT_EQ(message([](C& c) { c.pooling = Pooling::token, none(c); }),
            "the model cannot be built: attention.kind is none, so that pooling token reads one "
            "row alone; set pooling to attention or mean");
  ModelConfig text = tiny_config();
  text.head = Head::sequence_classification;
  text.pooling = Pooling::attention;
  EXPECT_EQ(message_of([&] { Model model(text); }),
            "the model cannot be built: pooling attention is for features (embed_dim); set it to "
            "first or mean");
  ModelConfig token = config_of(cases[0]);
  EXPECT_EQ(attention_map_obstacle(token), "");
  token.attention.window = 4;
  EXPECT_EQ(attention_map_obstacle(token),
            "its last attention mixes a window with landmarks (attention.window), and has no one "
            "row of scores");
  token.attention.window.reset();
  const auto model = make_model(token, DType::f64);
  EXPECT_EQ(message_of([&] { (*model)(input_of(token, ragged)); }),
            "pooling token reads features without padding; leave attention_mask out");
}

// ---- Maps ---------------------------------------------------------------------------------------

class AttentionMap : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(AttentionMap, IsTheFirstRowOfTheDenseMatrix) {
  for (const auto& [kind, positions] : {std::pair(AttentionKind::nystrom, Positions::none),
                                        std::pair(AttentionKind::nystrom, Positions::rope),
                                        std::pair(AttentionKind::softmax, Positions::none)}) {
    ModelConfig config = config_of(cases[0]);
    config.attention.kind = kind;
    config.positions = positions;
    config.hidden_size = 8;  // heads of an even width, which positions rotate
    config.attention.conv_kernel_size = 3;
    const auto model = make_model(config, DType::f64, 2);
    const ModelInput input =
        rows_of(config, {{std::string(static_cast<std::size_t>(GetParam()), '1')}});
    std::vector<double> expected(static_cast<std::size_t>(GetParam()), 0.0);
    int layer = 0;
    RunContext run;
    run.observe_attention = [&](const AttentionInputs& in, Var&) {
      if (++layer < config.num_hidden_layers) return;
      ParameterStore none;
      const auto method = make_attention(Scope(none) / "dense", config);
      const Tensor matrix = attention_matrix(*method, in).contiguous();
      const std::int64_t heads = matrix.dim(1), n = matrix.dim(3);
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t i = 1; i < n; ++i)
          expected[static_cast<std::size_t>(i - 1)] +=
              matrix.data<double>()[head * n * n + i] / static_cast<double>(heads);
    };
    (*model)(input, run);
    EXPECT_LE(max_difference(attention_map(*model, input).to_doubles(), expected), 1e-13);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, AttentionMap, ::testing::Values(1, 2, 3, 7, 40));

TEST(AttentionMap, OfGatedPoolingSumsToOne) {
  const ModelConfig config = config_of(cases[5]);
  const auto model = make_model(config, DType::f64);
  const std::vector<double> map =
      attention_map(*model, rows_of(config, {{"1111111"}})).to_doubles();
  ASSERT_EQ(map.size(), 7U);
  double sum = 0;
  for (const double weight : map) {
    EXPECT_GT(weight, 0);
    sum += weight;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NE(map[0], map[1]);
}

TEST(AttentionMap, IsRefusedWhereThereIsNone) {
  ModelConfig config = config_of(cases[0]);
  config.pooling = Pooling::mean;
  EXPECT_EQ(attention_map_obstacle(config),
            "its pooling is mean, and rows have scores with pooling token or attention");
  config.pooling = Pooling::token;
  config.attention.kind = AttentionKind::performer;
  EXPECT_EQ(attention_map_obstacle(config),
            "its last attention is performer, and nystrom and softmax have rows of scores");
  config.head = Head::none;
  EXPECT_EQ(attention_map_obstacle(config), "it does not classify features");
}

}  // namespace
}  // namespace nystrom::testing
