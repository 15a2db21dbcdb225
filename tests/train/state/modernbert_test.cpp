// config.json of ModernBERT, as transformers 4 and 5 write it, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"
#include "train/state/hf_config.h"

namespace nystrom::testing {
namespace {

using nlohmann::json;

/// The options of a small model, with `changes`.
json small(const json& changes = json::object()) {
  json config = {{"model_type", "modernbert"},
                 {"architectures", {"ModernBertForMaskedLM"}},
                 {"vocab_size", 40},
                 {"hidden_size", 16},
                 {"intermediate_size", 24},
                 {"num_hidden_layers", 7},
                 {"num_attention_heads", 2},
                 {"pad_token_id", 3},
                 {"max_position_embeddings", 64}};
  config.update(changes);
  return config;
}

ModelConfig read(const json& config) { return parse_hf_config(config.dump(), "config.json"); }
std::string error_of(const json& changes) {
  return input_error([&] { read(small(changes)); });
}

TEST(ModernBertConfig, HasTheDefaultsOfItsClass) {
  const ModelConfig config = read(small());
  EXPECT_EQ(config.positions, Positions::rope);
  EXPECT_EQ(config.rope_theta, 160000);
  EXPECT_EQ(config.local_rope_theta, 10000);
  EXPECT_EQ(config.attention.window, 128);
  EXPECT_EQ(config.attention.window_layers, (std::vector<std::string>{"1-2", "4-5"}));
  EXPECT_EQ(config.mlp, Mlp::geglu);
  EXPECT_FALSE(config.bias);
  EXPECT_TRUE(config.final_norm);
  EXPECT_FALSE(config.first_attention_norm);
  EXPECT_TRUE(config.head_transform);
  EXPECT_EQ(config.norm, Norm::pre);
}

TEST(ModernBertConfig, ReadsTheNewerFormOfTheSameOptions) {
  const json types = {"full_attention", "sliding_attention", "sliding_attention",
                      "full_attention", "sliding_attention", "sliding_attention",
                      "full_attention"};
  const ModelConfig newer =
      read(small({{"layer_types", types},
                  {"rope_parameters",
                   {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 80000.0}}},
                    {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 20000.0}}}}}}));
  const ModelConfig older =
      read(small({{"global_rope_theta", 80000.0}, {"local_rope_theta", 20000.0}}));
  EXPECT_EQ(hf_config_text(newer), hf_config_text(older));
}

TEST(ModernBertConfig, AnyLayersMayHaveTheWindow) {
  const json types = {"sliding_attention", "full_attention",    "full_attention",
                      "sliding_attention", "sliding_attention", "full_attention",
                      "sliding_attention"};
  EXPECT_EQ(read(small({{"layer_types", types}})).attention.window_layers,
            (std::vector<std::string>{"0", "3-4", "6"}));
  const ModelConfig none = read(small({{"global_attn_every_n_layers", 1}}));
  EXPECT_FALSE(none.attention.window);
  EXPECT_FALSE(none.local_rope_theta);
}

TEST(ModernBertConfig, ComesBackFromItsText) {
  const Architecture& architecture = *find_architecture("modernbert");
  for (const json& changes :
       {json::object(), json{{"global_attn_every_n_layers", 1}},
        json{{"global_attn_every_n_layers", 2}, {"local_rope_theta", nullptr}},
        json{{"attention_bias", true},
             {"mlp_bias", true},
             {"norm_bias", true},
             {"classifier_bias", true}},
        json{{"architectures", {"ModernBertForSequenceClassification"}},
             {"classifier_pooling", "mean"},
             {"classifier_activation", "relu"}}}) {
    const ModelConfig config = read(small(changes));
    EXPECT_EQ(architecture_obstacle(config, architecture), "") << changes;
    const ModelConfig again = parse_hf_config(hf_config_text(config, architecture), "config.json");
    EXPECT_EQ(hf_config_text(again), hf_config_text(config)) << changes;
  }
}

TEST(ModernBertConfig, AnotherPatternOfWindowsIsNoModernBert) {
  const json types = {"sliding_attention", "full_attention", "full_attention", "full_attention",
                      "full_attention",    "full_attention", "full_attention"};
  EXPECT_NE(architecture_obstacle(read(small({{"layer_types", types}})),
                                  *find_architecture("modernbert")),
            "");
}

TEST(ModernBertConfig, IgnoresWhatPublishedFoldersHoldBesides) {
  const ModelConfig config = read(small({{"layer_norm_eps", 1e-7},
                                         {"norm_eps", 1e-5},
                                         {"position_embedding_type", "absolute"},
                                         {"reference_compile", nullptr},
                                         {"gradient_checkpointing", false},
                                         {"sparse_prediction", true},
                                         {"sliding_window", 64},
                                         {"rope_scaling", {{"type", "default"}}},
                                         {"attention_dropout", 0.1}}));
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
  EXPECT_EQ(config.hidden_dropout_prob, 0);
}

TEST(ModernBertConfig, OptionsOfAHeadMatterWhereThereIsOne) {
  for (const json& changes :
       {json{{"classifier_activation", "mish"}}, json{{"classifier_bias", true}},
        json{{"classifier_pooling", "max"}}}) {
    EXPECT_NE(error_of(changes), "") << changes;
    json bare = small(changes);
    bare["architectures"] = json::array({"ModernBertModel"});
    EXPECT_EQ(read(bare).head, Head::none) << changes;
  }
}

TEST(ModernBertConfig, OptionsOfANewHeadAreReadBesideThoseThatItCannotHave) {
  json bare = small({{"classifier_pooling", "max"}, {"classifier_activation", "relu"}});
  bare["architectures"] = json::array({"ModernBertModel"});
  EXPECT_EQ(read(bare).transform_act, Activation::relu);
}

TEST(ModernBertConfig, RefusesWhatWouldBeAnotherModel) {
  EXPECT_EQ(error_of({{"norm_bias", true}}),
            "config.json: norm_bias: is true, and attention_bias is false; nystrom's encoders have "
            "biases everywhere or nowhere");
  EXPECT_EQ(error_of({{"decoder_bias", false}}),
            "config.json: decoder_bias: expected true, got false; nystrom's decoder has a bias");
  for (const json& scaling :
       {json{{"factor", 4}}, json{{"rope_type", "default"}, {"rope_theta", 9}}})
    EXPECT_EQ(error_of({{"rope_scaling", scaling}}),
              "config.json: rope_scaling: expected null or {\"rope_type\": \"default\"}, got " +
                  scaling.dump() + "; the model would be another");
  EXPECT_EQ(error_of({{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}),
            "config.json: rope_parameters.full_attention.rope_type: expected default, got "
            "\"yarn\"; the model would be another");
  EXPECT_EQ(error_of({{"rope_parameters", {{"rope_theta", 1e4}}}}),
            "config.json: rope_parameters.rope_theta: expected the objects full_attention and "
            "sliding_attention");
  EXPECT_EQ(error_of({{"layer_types", {"full_attention"}}}),
            "config.json: layer_types: expected an array of 7 types, got 1");
  EXPECT_EQ(error_of({{"classifier_pooling", "max"}}),
            "config.json: classifier_pooling: expected cls or mean, got max");
  EXPECT_EQ(error_of({{"local_attention", 0}}),
            "config.json: local_attention: expected a whole number at least 2, got 0");
  EXPECT_EQ(error_of({{"local_attention", nullptr}}),
            "config.json: local_attention: expected a whole number at least 2, got null");
  EXPECT_EQ(error_of({{"sliding_window", 63}}),
            "config.json: sliding_window: is 63, and local_attention is 128; set local_attention "
            "to the width that the model was trained with, and remove sliding_window");
  expect_says(error_of({{"hidden_activation", "mish"}}), "hidden_activation: expected one of");
}

}  // namespace
}  // namespace nystrom::testing
