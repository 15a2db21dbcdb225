// Replaced-token detection: its losses are those of a masked language model and of judgements of
// the tokens that take the masked ones' places.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/model_gradients.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

constexpr std::int64_t none = ignore_index;

ModelConfig config_of() {
  ModelConfig config = tiny_config();
  config.vocab_size = 20;
  config.hidden_size = 8;
  config.num_attention_heads = 2;
  config.intermediate_size = 16;
  config.head = Head::replaced_tokens;
  config.generator = GeneratorConfig{.hidden_size = 4};
  return config;
}

const Layout token_layout{{"111111111", "111110000", "110000000"}};

ModelInput input() { return without_padding(input_of(config_of(), token_layout)); }
Tensor labels() {
  return int_tensor({none, 3, none, none, 4, none, none, 6, none, none, 9, none, none, none, 5, 8},
                    {16});
}
RunContext run_of(bool training = false) {
  return {training, false, 3, 4, int_tensor({7, 8, 9}, {3})};
}
constexpr ReplacedTokensScale scale{6, 16, 50};

/// Copies the parameters of `from` under `prefix`, and the embedding tables, which have none.
void copy_parameters(const Model& from, const std::string& prefix, Model& to) {
  for (const Parameter& parameter : to.parameters().parameters()) {
    const std::string own = prefix + parameter.name();
    to.parameters().set(parameter.name(), from.parameters().master(
                                              from.parameters().has(own) ? own : parameter.name()));
  }
}

/// A model whose generator always draws `token`, so that the replaced text is known.
std::unique_ptr<Model> model_that_draws(std::int64_t token) {
  auto model = make_model(config_of(), DType::f64, 1.5);
  Tensor bias = Tensor::zeros({20}, DType::f64);
  bias.data<double>()[token] = 100;
  model->parameters().set("generator.cls.predictions.bias", bias);
  return model;
}

TEST(ReplacedTokens, ItsLossIsThatOfTwoModels) {
  const auto model = model_that_draws(5);
  const ReplacedTokensOutput out = model->replaced_tokens(input(), labels(), scale, run_of());

  const auto generator = make_model(generator_of(config_of()), DType::f64);
  copy_parameters(*model, "generator.", *generator);
  EXPECT_NEAR(out.generator_loss.item(),
              generator->masked_lm(input(), labels(), scale.masked, {}).loss.value().item(), 1e-9);

  ModelConfig alone = config_of();
  alone.generator.reset();
  const auto judge = make_model(alone, DType::f64);
  copy_parameters(*model, "", *judge);
  ModelInput replaced = input();
  Tensor truth = Tensor::zeros({16, 1}, DType::i64);
  const Tensor targets = labels();
  for (std::int64_t i = 0; i < 16; ++i) {
    const std::int64_t label = targets.data<std::int64_t>()[i];
    if (label == none) continue;
    replaced.input_ids.data<std::int64_t>()[i] = 5;
    truth.data<std::int64_t>()[i] = label != 5;
  }
  const Var logits = (*judge)(replaced).logits;
  EXPECT_EQ(logits.shape(), (Shape{16}));
  const double expected =
      multi_label_loss(reshape(logits, {16, 1}), truth, scale.tokens).value().item();
  EXPECT_NEAR(out.discriminator_loss.item(), expected, 1e-12);
  EXPECT_NEAR(out.loss.value().item(), out.generator_loss.item() + 50 * expected, 1e-9);
  EXPECT_EQ(out.replaced, 5) << "one of the six masked tokens is 5";
  EXPECT_EQ(out.guessed, 1);
  std::int64_t found = 0, right = 0;
  for (std::int64_t i = 0; i < 16; ++i) {
    const bool is_replaced = truth.data<std::int64_t>()[i] == 1,
               taken_for = logits.value().data<double>()[i] > 0;
    found += is_replaced && taken_for;
    right += is_replaced == taken_for;
  }
  EXPECT_EQ(out.found, found);
  EXPECT_EQ(out.right, right);
}

/// Another draw would be a jump of the loss.
TEST(ReplacedTokens, ItsGradientIsTheNumericalOne) {
  const auto model = model_that_draws(5);
  const auto loss = [&] { return model->replaced_tokens(input(), labels(), scale, run_of()).loss; };
  expect_numerical_gradients(*model, loss, 1e-5);
}

TEST(ReplacedTokens, PaddedInputGivesTheSame) {
  const auto model = make_model(config_of(), DType::f64, 1.5);
  std::vector<std::int64_t> in_places(27, none);
  const Tensor places = token_places(token_layout), own = labels();
  for (std::int64_t i = 0; i < 16; ++i)
    in_places[static_cast<std::size_t>(places.data<std::int64_t>()[i])] =
        own.data<std::int64_t>()[i];
  for (const bool training : {false, true}) {
    const RunContext run = run_of(training);
    const auto rows = model->replaced_tokens(input(), own, scale, run),
               padded = model->replaced_tokens(input_of(config_of(), token_layout),
                                               Tensor::from(in_places, {3, 9}), scale, run);
    EXPECT_NEAR(padded.loss.value().item(), rows.loss.value().item(), 1e-11);
    EXPECT_EQ(padded.right, rows.right);
    EXPECT_EQ(padded.replaced, rows.replaced);
  }
}

/// A sample that stands alone in its batch gets the same draws.
TEST(ReplacedTokens, DrawsDependOnTheSampleAlone) {
  const auto model = make_model(config_of(), DType::f64, 1.5);
  const std::int64_t ends[] = {9, 14, 16};
  for (const bool training : {false, true}) {
    double sum = 0;
    std::int64_t begin = 0;
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t end = ends[row];
      RunContext run = run_of(training);
      run.sample_ids = run.sample_ids.slice(0, row, row + 1).contiguous();
      ModelInput one = input();
      one.input_ids = one.input_ids.slice(0, begin, end).contiguous();
      one.token_type_ids = one.token_type_ids.slice(0, begin, end).contiguous();
      one.offsets = {0, end - begin};
      sum += model->replaced_tokens(one, labels().slice(0, begin, end).contiguous(), scale, run)
                 .loss.value()
                 .item();
      begin = end;
    }
    const auto all = model->replaced_tokens(input(), labels(), scale, run_of(training));
    EXPECT_NEAR(sum, all.loss.value().item(), 1e-11);
  }
}

TEST(ReplacedTokens, AnotherStepDrawsOtherTokens) {
  const auto model = make_model(config_of(), DType::f64);
  std::set<double> losses;
  for (std::uint64_t step = 0; step < 4; ++step) {
    RunContext run = run_of();
    run.step = step;
    losses.insert(model->replaced_tokens(input(), labels(), scale, run).discriminator_loss.item());
  }
  EXPECT_EQ(losses.size(), 4U);
}

TEST(ReplacedTokens, ALogitOfZeroJudgesATokenToBeTheOriginal) {
  const auto model = model_that_draws(5);
  const std::string out = "discriminator_predictions.dense_prediction.";
  model->parameters().set(out + "weight", Tensor::zeros({1, 8}, DType::f64));
  model->parameters().set(out + "bias", Tensor::zeros({1}, DType::f64));
  const ReplacedTokensOutput judged = model->replaced_tokens(input(), labels(), scale, run_of());
  EXPECT_EQ(judged.found, 0);
  EXPECT_EQ(judged.right, 16 - judged.replaced);
}

TEST(ReplacedTokens, PaddingTakesNoTokensPlace) {
  const auto model = model_that_draws(*config_of().pad_token_id);
  EXPECT_EQ(model->replaced_tokens(input(), labels(), scale, run_of()).replaced, 0);
}

/// Both encoders train the tables, so that no gradient is final before the last.
TEST(ReplacedTokens, ItsGradientsAreFinalAtTheEndAlone) {
  const auto model = make_model(config_of(), DType::f64);
  RunContext run = run_of(true);
  run.gradients_final = [](std::int64_t place) { ADD_FAILURE() << place; };
  Tape tape;
  tape.backward(model->replaced_tokens(input(), labels(), scale, run).loss);
}

TEST(ReplacedTokens, TheGeneratorIsAQuarterAndSharesTheTables) {
  ModelConfig config = tiny_config();
  config.hidden_size = 48;
  config.num_attention_heads = 12;
  config.intermediate_size = 100;
  config.embedding_size = 20;
  config.head = Head::replaced_tokens;
  config.generator.emplace();
  const ModelConfig generator = generator_of(config);
  EXPECT_EQ(generator.hidden_size, 12);
  EXPECT_EQ(generator.num_attention_heads, 3);
  EXPECT_EQ(generator.intermediate_size, 25);
  EXPECT_EQ(generator.embedding_width(), 20);
  const Model model(config);
  EXPECT_TRUE(model.parameters().has("generator.nystromformer.embeddings.projection.weight"));
  EXPECT_FALSE(model.parameters().has("generator.nystromformer.embeddings.word_embeddings.weight"));
  config.generator->num_attention_heads = 5;
  EXPECT_THROW(Model{config}, InputError) << "12 is no multiple of 5";
}

}  // namespace
}  // namespace nystrom::testing
