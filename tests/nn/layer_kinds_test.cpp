// Attention kinds by layer: how they are named, and models with several of them.
#include "nn/layer_kinds.h"

#include <gtest/gtest.h>

#include "nn/attention_watch.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

using Kind = AttentionKind;

ModelConfig config_of(std::int64_t layers, Kind kind, const LayerKinds& own) {
  ModelConfig config = tiny_config();
  config.num_hidden_layers = layers;
  config.attention.projected_length = 4;
  config.attention.kind = kind;
  config.attention.layers = own;
  return config;
}

std::vector<std::string> problems_of(const LayerKinds& layers) {
  return messages_of(problems(config_of(4, Kind::nystrom, layers)));
}

TEST(LayerRange, IsALayerOrARange) {
  using Bounds = std::vector<std::int64_t>;
  const auto bounds = [](const char* text) {
    const auto range = parse_layer_range(text);
    return range ? Bounds{range->first, range->last} : Bounds();
  };
  EXPECT_EQ(bounds("11"), Bounds(2, 11));
  EXPECT_EQ(bounds("2-11"), (Bounds{2, 11}));
  for (const char* text : {"", "-", "a", "1-", "-1", "0--1", "1-2-3", "3-2", " 1", "1.0", "+1",
                           "0x1", "0-99999999999999999999"})
    EXPECT_FALSE(parse_layer_range(text)) << text;
}

TEST(LayerKinds, SayTheKindOfEachLayer) {
  const ModelConfig config =
      config_of(4, Kind::nystrom, {{"0-1", Kind::softmax}, {"3", Kind::linear}});
  const Kind expected[] = {Kind::softmax, Kind::softmax, Kind::nystrom, Kind::linear};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(config.kind_of(i), expected[i]);
    EXPECT_EQ(config.of_layer(i).attention.kind, expected[i]);
    EXPECT_TRUE(config.of_layer(i).attention.layers.empty());
  }
  EXPECT_TRUE(config.has_kind(Kind::nystrom) && config.has_kind(Kind::linear));
  EXPECT_FALSE(config.has_kind(Kind::performer) || config.has_only(Kind::softmax));
  EXPECT_EQ(describe_kinds(config), "nystrom (layers 0-1: softmax, 3: linear)");
}

TEST(LayerKinds, AKindThatNoLayerHasIsAbsent) {
  const ModelConfig named = config_of(4, Kind::nystrom, {{"0-3", Kind::softmax}});
  EXPECT_FALSE(named.has_kind(Kind::nystrom));
  EXPECT_TRUE(named.has_only(Kind::softmax));
  const ModelConfig plain = config_of(4, Kind::nystrom, {});
  EXPECT_TRUE(plain.has_only(Kind::nystrom));
  EXPECT_TRUE(config_of(0, Kind::linear, {}).has_only(Kind::linear));
}

TEST(LayerKinds, WrongLayersAreNamed) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(problems_of({{"0-3", Kind::softmax}}), Lines());
  EXPECT_EQ(problems_of({{"first", Kind::softmax}}),
            Lines{"attention.layers 'first' names no layers; expected a layer or a range, such as "
                  "11 or 0-3"});
  EXPECT_EQ(problems_of({{"2-4", Kind::softmax}}),
            Lines{"attention.layers '2-4' exceeds num_hidden_layers 4, whose layers count from 0; "
                  "lower it"});
  EXPECT_EQ(problems_of({{"0-2", Kind::softmax}, {"2", Kind::linear}}),
            Lines{"attention.layers '2' and '0-2' both name layer 2; name each layer once"});
  EXPECT_EQ(messages_of(problems(config_of(1, Kind::nystrom, {{"0", Kind::softmax}, {"1", {}}}))),
            Lines{"attention.layers has 2 names for 1 layers; name each layer once"});
}

TEST(LayerKinds, RulesOfAKindApplyWhereALayerHasIt) {
  ModelConfig config = config_of(4, Kind::softmax, {{"1", Kind::nystrom}});
  config.attention.num_landmarks = 900;
  EXPECT_EQ(messages_of(problems(config)).size(), 1U);
  config.attention.layers = {{"1", Kind::linear}};
  EXPECT_TRUE(problems(config).empty());
  config.attention.semantics = Semantics::transformers;
  EXPECT_EQ(messages_of(problems(config)),
            std::vector<std::string>{
                "attention.kind linear has no attention.semantics transformers, which Hugging Face "
                "defines for nystrom and softmax alone; set attention.semantics to nystrom"});
}

std::vector<double> hidden_states(const ModelConfig& config) {
  const Layout layout{{"111111111", "111000000", "011011100"}};
  const auto model = make_model(config, DType::f64);
  const Var x = (*model)(input_of(config, layout), {}).last_hidden_state;
  return at_places(x, token_places(layout)).value().to_doubles();
}

TEST(LayerKinds, AModelWhoseLayersAreAllNamedIsAModelOfThatKind) {
  for (const auto& [kind, name] : enum_names(Kind{})) {
    if (kind == Kind::none) continue;  // for features alone
    const Kind other = kind == Kind::softmax ? Kind::nystrom : Kind::softmax;
    const ModelConfig uniform = config_of(3, kind, {}),
                      named = config_of(3, other, {{"0-1", kind}, {"2", kind}});
    EXPECT_EQ(hidden_states(named), hidden_states(uniform)) << name;
    EXPECT_NE(hidden_states(config_of(3, other, {{"1", kind}})), hidden_states(uniform)) << name;
  }
}

/// Later layers do not change the states before them.
TEST(LayerKinds, EachLayerComputesItsOwnKind) {
  const ModelConfig mixed = config_of(2, Kind::nystrom, {{"1", Kind::linformer}});
  std::vector<std::vector<double>> outputs[2];
  for (const ModelConfig& config : {mixed, config_of(2, Kind::nystrom, {})}) {
    auto& seen = outputs[config.attention.layers.empty()];
    RunContext run;
    run.observe_attention = [&](const AttentionInputs&, const Var& output) {
      seen.push_back(output.value().contiguous().to_doubles());
    };
    (*make_model(config, DType::f64))(input_of(config, {{"111111111"}}), run);
  }
  EXPECT_EQ(outputs[0][0], outputs[1][0]);
  EXPECT_NE(outputs[0][1], outputs[1][1]);
}

TEST(LayerKinds, AWindowIsThatOfExactLayersElseOfLandmarks) {
  const auto with_window = [](ModelConfig config, std::vector<std::string> layers) {
    config.attention.window = 4;
    config.attention.window_layers = std::move(layers);
    std::string windows;
    for (std::int64_t layer = 0; layer < 3; ++layer)
      windows += config.has_window(layer) ? 'w' : '-';
    return windows;
  };
  EXPECT_EQ(with_window(config_of(3, Kind::nystrom, {{"1", Kind::softmax}}), {}), "-w-");
  EXPECT_EQ(with_window(config_of(3, Kind::nystrom, {{"1", Kind::linear}}), {}), "w-w");
  EXPECT_EQ(with_window(config_of(3, Kind::nystrom, {{"1", Kind::softmax}}), {"0-1"}), "ww-");
}

/// The learned share at its ends.
TEST(LayerKinds, AWindowBesideLandmarksLiesBetweenBoth) {
  const Layout layout{{"11111111111111111111", "11111100000000000000"}};
  const auto states = [&](Kind kind, std::optional<std::int64_t> window, double gate) {
    ModelConfig config = config_of(2, kind, {});
    config.max_position_embeddings = 20;
    config.attention.num_landmarks = 4;
    config.attention.window = window;
    const auto model = make_model(config, DType::f64);
    for (const Parameter& parameter : model->parameters().parameters())
      if (parameter.name().ends_with("window_gate"))
        model->parameters().set(parameter.name(),
                                Tensor::full(parameter.shape(), gate, DType::f64));
    return at_places((*model)(input_of(config, layout)).last_hidden_state, token_places(layout))
        .value();
  };
  const Tensor window = states(Kind::softmax, 6, 0), landmarks = states(Kind::nystrom, {}, 0);
  EXPECT_LE(relative_difference(states(Kind::nystrom, 6, 40), window), 1e-12);
  EXPECT_LE(relative_difference(states(Kind::nystrom, 6, -40), landmarks), 1e-12);
  EXPECT_GT(relative_difference(states(Kind::nystrom, 6, 0), window), 1e-3);
}

TEST(LayerKinds, ALayerHasTheParametersOfItsKind) {
  const auto model = make_model(
      config_of(3, Kind::nystrom, {{"1", Kind::linformer}, {"2", Kind::reformer}}), DType::f32);
  const auto has = [&](const std::string& name) {
    const auto& all = model->parameters().parameters();
    return std::any_of(all.begin(), all.end(), [&](const Parameter& parameter) {
      return parameter.name() == "nystromformer.encoder.layer." + name + ".weight";
    });
  };
  for (const char* layer : {"0", "1", "2"}) {
    const std::string self = std::string(layer) + ".attention.self.";
    EXPECT_EQ(has(self + "key_projection"), *layer == '1');
    EXPECT_EQ(has(self + "key"), *layer != '2');
  }
}

TEST(LayerKinds, TheWatchLeavesOutLayersWithoutLandmarks) {
  const ModelConfig config =
      config_of(3, Kind::nystrom, {{"0", Kind::softmax}, {"2", Kind::linear}});
  AttentionWatch watch(config);
  RunContext run;
  run.observe_attention = [&](const AttentionInputs& in, Var& output) {
    watch.observe(in, output);
  };
  const auto model = make_model(config, DType::f64);
  Tape tape;
  tape.backward(weighted_sum((*model)(input_of(config, {{"111111111"}}), run).last_hidden_state));
  ASSERT_EQ(watch.layers().size(), 1U);
  EXPECT_GT(watch.layers().at(1).error, 0);
}

}  // namespace
}  // namespace nystrom::testing
