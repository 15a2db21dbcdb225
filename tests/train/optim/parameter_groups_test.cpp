// Options of single parameters: patterns, layer-wise decay, freezing, and their wrong inputs.
#include "train/optim/parameter_groups.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

std::map<std::string, ParameterOptions> options_by_name(
    const OptimizerOptions& options, const ModelConfig& config = masked_lm_config()) {
  const Model model(config);
  const std::vector<Parameter> parameters = model.parameters().parameters();
  const std::vector<ParameterOptions> of_each = parameter_options(model.parameters(), options);
  std::map<std::string, ParameterOptions> result;
  for (std::size_t i = 0; i < parameters.size(); ++i) result[parameters[i].name()] = of_each[i];
  return result;
}

const std::string layer = "nystromformer.encoder.layer.";

TEST(ParameterOptions, LayerDecayLowersTheRateFromLayerToLayer) {
  OptimizerOptions options;
  options.layer_decay = 0.5;
  auto of = options_by_name(options);
  EXPECT_EQ(of.at("nystromformer.embeddings.word_embeddings.weight").learning_rate_factor, 0.125);
  EXPECT_EQ(of.at("nystromformer.embeddings.LayerNorm.bias").learning_rate_factor, 0.125);
  EXPECT_EQ(of.at(layer + "0.attention.self.query.weight").learning_rate_factor, 0.25);
  EXPECT_EQ(of.at(layer + "1.output.dense.bias").learning_rate_factor, 0.5);
  EXPECT_EQ(of.at("cls.predictions.bias").learning_rate_factor, 1);
}

TEST(ParameterOptions, LayerDecayHoldsForAGeneratorToo) {
  ModelConfig config = masked_lm_config();
  config.head = Head::replaced_tokens;
  config.generator.emplace();
  OptimizerOptions options;
  options.layer_decay = 0.5;
  auto of = options_by_name(options, config);
  EXPECT_EQ(of.at("generator." + layer + "0.attention.self.query.weight").learning_rate_factor,
            0.25);
  EXPECT_EQ(of.at("generator.cls.predictions.bias").learning_rate_factor, 1);
}

TEST(ParameterOptions, LayerDecayLeavesTheFinalNormItsRate) {
  ModelConfig config = masked_lm_config();
  config.norm = Norm::pre;
  config.final_norm = true;
  OptimizerOptions options;
  options.layer_decay = 0.5;
  EXPECT_EQ(
      options_by_name(options, config).at("nystromformer.final_norm.weight").learning_rate_factor,
      1);
}

TEST(ParameterOptions, TheLastGroupThatMatchesApplies) {
  OptimizerOptions options;
  options.weight_decay = 0.1;
  options.layer_decay = 0.5;
  options.groups = {{"*", 1, std::nullopt, true},
                    {layer + "[01].attention.*", 3, 0.2},
                    {layer + "?.attention.self.conv.weight", 10}};
  auto of = options_by_name(options);
  EXPECT_TRUE(of.at("cls.predictions.bias").frozen);
  const ParameterOptions query = of.at(layer + "0.attention.self.query.weight"),
                         bias = of.at(layer + "0.attention.self.query.bias"),
                         taps = of.at(layer + "1.attention.self.conv.weight");
  EXPECT_FALSE(query.frozen);
  EXPECT_EQ(query.learning_rate_factor, 3 * 0.25) << "beside the layer's";
  EXPECT_EQ(query.weight_decay, 0.2);
  EXPECT_EQ(bias.weight_decay, 0) << "biases never decay";
  EXPECT_EQ(taps.learning_rate_factor, 10 * 0.5);
  EXPECT_EQ(taps.weight_decay, 0.1) << "nothing of the group before";
}

TEST(ParameterOptions, FrozenParametersAreConstants) {
  Model model(masked_lm_config());
  OptimizerOptions options;
  options.groups = {{"nystromformer.embeddings.*", 1, std::nullopt, true}};
  freeze_parameters(model.parameters(), options);
  model.parameters().allocate(DType::f64, StoreMode::training);
  model.parameters().initialise(1, 0.02);
  std::int64_t frozen = 0;
  for (const Parameter& parameter : model.parameters().parameters()) {
    const bool embedding = parameter.name().starts_with("nystromformer.embeddings.");
    EXPECT_EQ(parameter.is_frozen(), embedding) << parameter.name();
    EXPECT_EQ(parameter.var().requires_grad(), !embedding) << parameter.name();
    if (embedding) frozen += parameter.shape().numel();
  }
  EXPECT_EQ(model.parameters().trained_count(), model.parameters().count() - frozen);
}

struct WrongGroups {
  std::vector<ParameterGroup> groups;
  std::string message;
};

TEST(GroupProblems, OfAModelWithoutConvolutionSayWhereOneComesFrom) {
  ModelConfig config = tiny_config();
  config.attention.conv_kernel_size.reset();
  const Model model(config);
  const Problems found = group_problems(model.parameters(), {.groups = {{"*.conv.weight"}}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].message,
            "optimizer.groups[0].parameters '*.conv.weight' matches no parameter of the model; the "
            "model has no convolution: leave the group out, or set "
            "model.attention.conv_kernel_size, of a trained model by nystrom convert --conv 33");
}

TEST(GroupProblems, NameTheOptionAndTheWayOut) {
  const std::vector<WrongGroups> cases = {
      {{{"*.convolution.weight"}},
       "optimizer.groups[0].parameters '*.convolution.weight' matches no parameter of the model; "
       "nystrom info lists the names, such as cls.predictions.bias"},
      {{{"*.bias", 2}, {"nystromformer.embedings.*"}},
       "optimizer.groups[1].parameters 'nystromformer.embedings.*' matches no parameter of the "
       "model; did you mean 'embeddings' in place of 'embedings'?"},
      {{{"*.layer.7.*"}},
       "optimizer.groups[0].parameters '*.layer.7.*' matches no parameter of the model; nystrom "
       "info lists the names, such as cls.predictions.bias"},
      {{{""}},
       "optimizer.groups[0].parameters is empty; give a pattern of names, such as "
       "\"*.conv.weight\""},
      {{{"*.bias", 2}, {"*"}},
       "optimizer.groups[0].parameters '*.bias' matches only parameters of later groups, which "
       "replace it; put it behind them, or remove it"},
      {{{"*.bias", 2, std::nullopt, true}},
       "optimizer.groups[0].freeze true excludes learning_rate_factor and weight_decay; frozen "
       "parameters do not change: leave these out, or set freeze to false"},
      {{{"*", 1, std::nullopt, true}},
       "optimizer.groups freezes all parameters; leave some to train"}};
  const Model model(masked_lm_config());
  for (const WrongGroups& wrong : cases) {
    OptimizerOptions options;
    options.groups = wrong.groups;
    EXPECT_EQ(group_problems(model.parameters(), options),
              (Problems{{{"optimizer.groups"}, wrong.message}}));
  }
  OptimizerOptions right;
  right.groups = {{"*", 1, std::nullopt, true}, {"*.conv.weight", 10}};
  EXPECT_EQ(group_problems(model.parameters(), right), Problems{});
}

}  // namespace
}  // namespace nystrom::testing
