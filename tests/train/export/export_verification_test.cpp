// The checks of an export: measured differences, the model card, and the zero kernels of models
// without convolution.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/errors.h"
#include "tests/support/says.h"
#include "tests/support/tiny_checkpoint.h"
#include "tests/train/export/export_fixture.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

// ---- No convolution -----------------------------------------------------------------------------

ModelConfig config_without_conv() {
  ModelConfig config = masked_lm_config();
  config.attention.conv_kernel_size.reset();
  return config;
}

/// Writes the weights of a model without convolution, with another first kernel.
void replace_kernel(const fs::path& folder, const Tensor& kernel) {
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor] : read_tensors(folder / "model.safetensors"))
    weights.push_back({name, name == first_kernel ? kernel : tensor});
  write_safetensors(folder / "model.safetensors", weights);
}

TEST_F(ExportTest, NoConvolutionIsAZeroKernelForTransformers) {
  run(write_model(config_without_conv()), plain);
  EXPECT_EQ(config_json()["conv_kernel_size"], 1);
  EXPECT_EQ(config_json()["nystrom"]["attention"]["conv_kernel_size"], nullptr);
  const auto weights = read_tensors(target() / "model.safetensors");
  for (const std::string layer : {"0", "1"}) {
    const Tensor kernel =
        weights.at("nystromformer.encoder.layer." + layer + ".attention.self.conv.weight");
    EXPECT_EQ(kernel.shape(), (Shape{2, 1, 1, 1}));
    EXPECT_EQ(kernel.to_doubles(), (std::vector<double>{0, 0}));
  }
  EXPECT_NO_THROW(model_in_transformers(DType::f32)) << "which asks for every kernel";
  expect_says(card(), "The model has no convolution.");
}

TEST_F(ExportTest, TheZeroKernelIsNoParameterWhenReadBack) {
  const ModelConfig config = config_without_conv();
  run(write_model(config), plain);
  const auto model = load_model(ModelFolder(target()), DType::f32, StoreMode::inference);
  EXPECT_EQ(model->parameters().count(), Model(config).parameters().count());
}

TEST_F(ExportTest, WeightsWithoutTheZeroKernelAreReadToo) {
  const ModelConfig config = config_without_conv();
  write_model(config);
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor] : read_tensors(source() / "model.safetensors")) {
    if (!name.ends_with("conv.weight")) weights.push_back({name, tensor});
  }
  write_safetensors(source() / "model.safetensors", weights);
  EXPECT_NO_THROW(load_model(ModelFolder(source()).with(config), DType::f32, StoreMode::inference));
}

TEST_F(ExportTest, AKernelThatIsNotZeroIsRefusedWhereThereIsNoConvolution) {
  const ModelConfig config = config_without_conv();
  write_model(config);
  replace_kernel(source(), Tensor::from(std::vector<float>{0, 0.5f}, {2, 1, 1, 1}));
  EXPECT_EQ(input_error([&] {
              load_model(ModelFolder(source()).with(config), DType::f32, StoreMode::inference);
            }),
            source().string() + ": " + first_kernel +
                " is not zero, but config.json says that there is no convolution; --set "
                "model.attention.conv_kernel_size=1 uses it");
}

TEST_F(ExportTest, AZeroKernelOfMoreTapsIsRefusedWhereThereIsNoConvolution) {
  const ModelConfig config = config_without_conv();
  write_model(config);
  replace_kernel(source(), Tensor::zeros({2, 1, 3, 1}, DType::f32));
  EXPECT_EQ(input_error([&] {
              load_model(ModelFolder(source()).with(config), DType::f32, StoreMode::inference);
            }),
            source().string() + ": the weights do not fit the model; unexpected: " + first_kernel);
}

// ---- Verifying ----------------------------------------------------------------------------------

TEST_F(ExportTest, VerifyingMeasuresTextsUpToTheFullLength) {
  ModelConfig config = masked_lm_config();
  config.max_position_embeddings = config.segment_means_seq_len = 24;
  const auto differences = run(write_model_with_tokenizer(config), verified).differences;
  std::vector<std::int64_t> tokens;
  for (const ExportDifference& each : differences) {
    tokens.push_back(each.tokens);
    EXPECT_EQ(each.positions, 24);
    EXPECT_GT(each.relative, 0);
    EXPECT_LT(each.relative, 1);
  }
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{8, 12, 18, 24}));
}

TEST_F(ExportTest, VerifyingExactAttentionFindsRoundingOnly) {
  const auto differences =
      run(write_model(masked_lm_config()), {.softmax = true, .verify = true}).differences;
  ASSERT_EQ(differences.size(), 2U);
  for (const ExportDifference& each : differences) {
    EXPECT_EQ(each.positions, each.tokens) << "no padding";
    EXPECT_LE(each.relative, 1e-5);
  }
}

/// Without padding and with one matrix (one layer, one head) the semantics agree.
TEST_F(ExportTest, VerifyingFindsNoDifferenceWhereThereIsNone) {
  ModelConfig config = masked_lm_config();
  config.num_attention_heads = 1;
  config.num_hidden_layers = 1;
  const auto differences = run(write_model(config), verified).differences;
  ASSERT_EQ(differences.back().tokens, 9);
  EXPECT_LE(differences.back().relative, 1e-5);
  EXPECT_GT(differences.front().relative, 1e-3);
}

TEST_F(ExportTest, EveryHeadIsVerified) {
  for (const auto& head : enum_names(Head{})) {
    if (head.value == Head::masked_features) continue;  // which is refused
    SCOPED_TRACE(head.name);
    ModelConfig config = tiny_config();
    config.head = head.value;
    fs::remove_all(source());
    fs::remove_all(target());
    // transformers has no class with the head of replaced tokens; the folder's own computes the
    // same.
    EXPECT_EQ(run(write_model(config), {.softmax = true, .verify = true}).differences.size(),
              head.value == Head::replaced_tokens ? 0U : 2U);
  }
}

TEST_F(ExportTest, VerifyingReadsTheBeginningOfALongText) {
  const TinyCheckpoint tiny(source());
  write_lines(folder_ / "long.txt", tiny_lines(50000, 3));
  const std::string told = run("export source target --verify --text long.txt").err;
  const std::size_t end = told.find(" tokens taken");
  ASSERT_NE(end, told.npos) << told;
  constexpr std::int64_t piece = 256 * 1024;
  EXPECT_LT(std::stoll(told.substr(told.rfind(' ', end - 1) + 1)), piece);
  EXPECT_GT(std::ssize(read_bytes(folder_ / "long.txt")), 4 * piece);
}

TEST_F(ExportTest, TextsLongerThanTheRowsOfTransformersAreRefusedFirst) {
  ModelConfig config = tiny_masked_lm();
  config.segment_means_seq_len = 12;
  const TinyCheckpoint tiny(source(), config);
  write_lines(folder_ / "text.txt", tiny_lines(9, 3));
  expect_refused(
      "export source target --quiet --format transformers --verify --text text.txt --set "
      "data.sequence_length=24",
      "data.sequence_length 24 is more than the 12 tokens (segment_means_seq_len) of a row in "
      "transformers, where --format transformers is measured; give --text with --set "
      "data.sequence_length=12");
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(ExportTest, VerifyingFindsOtherWeights) {
  const ModelConfig config = masked_lm_config();
  run(write_model(config));
  const auto other = make_model(config, DType::f32, 3);
  EXPECT_EQ(message_of([&] { verify_export(target(), *other, nullptr, 9); }),
            "nystromformer.encoder.layer.0.attention.self.query.weight was written, but read back "
            "otherwise");
}

// ---- The card -----------------------------------------------------------------------------------

TEST_F(ExportTest, TheCardForTransformersOwnClassPadsEveryText) {
  run(write_model_with_tokenizer(masked_lm_config()), plain);
  const std::string text = card();
  EXPECT_TRUE(
      text.starts_with("---\nlibrary_name: transformers\npipeline_tag: fill-mask\ntags:\n- "
                       "nystromformer\n# license: other"));
  expect_says(text, "\n# target\n");
  expect_says(text, "| class | `NystromformerForMaskedLM` |");
  expect_says(text, "length = dict(truncation=True, max_length=9, padding=\"max_length\")");
  expect_says(text, "Pad every text to 9 positions");
  expect_says(text, "Versions 5.x crash on padding masks");
  expect_hides(text, "The model has no convolution.");
  expect_says(text, "nystrom export THIS_FOLDER NEW_FOLDER --format transformers --verify",
              "not measured, so it says how");
}

TEST_F(ExportTest, TheCardSaysBothWaysToLoad) {
  run(write_model_with_tokenizer(masked_lm_config()));
  expect_says(card(), "| class | `NystromForMaskedLM` |");
  expect_says(card(), "AutoModelForMaskedLM.from_pretrained(\".\", trust_remote_code=True)");
  expect_says(card(), "nystrom export THIS_FOLDER NEW_FOLDER --format transformers\n");
  expect_hides(card(), "Pad every text");
}

TEST_F(ExportTest, TheCardOfASoftmaxModelDoesNotPad) {
  run(write_model_with_tokenizer(masked_lm_config()), {.softmax = true});
  expect_says(card(), "length = dict(truncation=True, max_length=9)");
  expect_hides(card(), "Pad every text");
}

TEST_F(ExportTest, TheCardHoldsWhatWasMeasured) {
  const auto differences = run(write_model(masked_lm_config()), verified).differences;
  for (const ExportDifference& each : differences) {
    std::ostringstream row;
    row << "\n| " << each.tokens << " | 9 | ";
    expect_says(card(), row.str());
  }
}

TEST(ExportNotes, SayWhatTransformersComputesOtherwise) {
  ModelConfig config = masked_lm_config();
  config.attention.landmark_source = LandmarkSource::keys;
  config.attention.inverse = Inverse::exact;
  EXPECT_EQ(export_notes(config),
            (Names{"transformers computes another Nyström attention than nystrom: landmarks and "
                   "convolution see padding, and the texts of a batch share a scaling factor",
                   "transformers inverts by six iterations; this model's inverse is exact",
                   "transformers takes landmarks from queries and from keys; this model takes both "
                   "from the keys"}));
  config.attention.inverse = Inverse::iterative;
  config.attention.inverse_iterations = 8;
  EXPECT_EQ(export_notes(config)[1], "transformers inverts by six iterations; this model has 8");
}

TEST(ExportNotes, SayWhenTransformersIsExactAndTheModelIsNot) {
  ModelConfig config = masked_lm_config();
  config.segment_means_seq_len = config.attention.num_landmarks;
  config.attention.conv_kernel_size.reset();
  EXPECT_EQ(export_notes(config), Names{"segment_means_seq_len == num_landmarks == 3: transformers "
                                        "computes exact softmax attention, nystrom only "
                                        "for texts of up to 3 tokens"});
  config.attention.kind = AttentionKind::softmax;
  EXPECT_EQ(export_notes(config), Names{});
}

}  // namespace
}  // namespace nystrom::testing
