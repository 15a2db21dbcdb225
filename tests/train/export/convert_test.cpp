// Conversion into Nyström encoders: every architecture, what is kept, and what is refused.
#include "train/export/extend.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/fixtures.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/export/export.h"
#include "train/export/forward.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* position_table = "nystromformer.embeddings.position_embeddings.weight";

/// Every folder of BERT's family, converted.
class ConvertArchitecture : public ::testing::TestWithParam<std::string> {
 protected:
  ModelFolder convert(const ConvertOptions& options) {
    const auto model = convert_model(source_, options);
    write_model_folder(source_, *model, model->config().segment_means_seq_len, folder_ / "turned",
                       log_);
    return ModelFolder(folder_ / "turned");
  }
  static NamedTensors outputs(const ModelFolder& folder, const NamedTensors& batch) {
    const auto model = load_model(folder, DType::f64, StoreMode::inference);
    NamedTensors found;
    for (const auto& [name, tensor] : run_forward(*model, batch, false)) found[name] = tensor;
    return found;
  }

  TemporaryFolder folder_;
  Log log_{true};
  const fs::path parent_ = fixture_folder() / "architectures" / GetParam();
  const ModelFolder source_{parent_};
};

/// A sequence with no more tokens than landmarks has exact attention, and the taps are 0.
TEST_P(ConvertArchitecture, IsTheParentUpToAsManyTokensAsLandmarks) {
  const std::int64_t positions = source_.config.max_position_embeddings;
  const ModelFolder turned = convert({.landmarks = positions, .length = 3 * positions});
  for (std::int64_t i = 0; i < turned.config.num_hidden_layers; ++i) {
    const bool window = source_.config.has_window(i);
    EXPECT_EQ(turned.config.kind_of(i), window ? AttentionKind::softmax : AttentionKind::nystrom);
    EXPECT_EQ(turned.config.has_window(i), window);
  }
  EXPECT_EQ(turned.config.head, source_.config.head);
  const NamedTensors batch = read_tensors(parent_ / "batch.safetensors"),
                     got = outputs(turned, batch), expected = outputs(source_, batch);
  for (const auto& [name, values] : expected)
    EXPECT_LE(max_difference(got.at(name), values), 1e-9 * largest(values)) << name;
}

TEST_P(ConvertArchitecture, ComputesSomethingElseBeyondUnlessKeptExact) {
  const NamedTensors batch = read_tensors(parent_ / "batch.safetensors"),
                     expected = outputs(source_, batch);
  const Tensor& before = expected.at("last_hidden_state");
  const auto hidden = [&](const std::string& keep_exact) {
    fs::remove_all(folder_ / "turned");
    return outputs(convert({.landmarks = 2, .keep_exact = keep_exact}), batch)
        .at("last_hidden_state");
  };
  const double both = max_difference(hidden(""), before),
               last = max_difference(hidden("0"), before);
  EXPECT_GT(both, 1e-3 * largest(before));
  EXPECT_GT(last, 1e-3 * largest(before));
  EXPECT_NE(both, last);
}

TEST_P(ConvertArchitecture, KeepsWeightsAndRepeatsPositions) {
  const std::int64_t positions = source_.config.max_position_embeddings,
                     offset = source_.config.position_offset;
  const ModelFolder turned = convert({.landmarks = 4, .conv = 5, .length = 2 * positions + 1});
  const auto before = load_model(source_, DType::f32, StoreMode::inference),
             after = load_model(turned, DType::f32, StoreMode::inference);
  std::int64_t kernels = 0;
  for (const Parameter& parameter : after->parameters().parameters()) {
    const std::string& name = parameter.name();
    const std::vector<double> values = after->parameters().master(name).to_doubles();
    if (name.ends_with("conv.weight")) {
      EXPECT_EQ(values, std::vector<double>(values.size(), 0)) << name;
      ++kernels;
    } else if (name == position_table) {
      const std::int64_t width = parameter.shape()[1];
      const std::vector<double> rows = before->parameters().master(name).to_doubles();
      for (std::int64_t i = 0; i < offset + 2 * positions + 1; ++i) {
        const std::int64_t row = i < offset ? i : offset + (i - offset) % positions;
        for (std::int64_t j = 0; j < width; ++j)
          EXPECT_EQ(values[static_cast<std::size_t>(i * width + j)],
                    rows[static_cast<std::size_t>(row * width + j)]);
      }
    } else {
      EXPECT_EQ(values, before->parameters().master(name).to_doubles()) << name;
    }
  }
  EXPECT_EQ(kernels, source_.config.num_hidden_layers);
}

TEST_P(ConvertArchitecture, ExportsAndVerifies) {
  const bool window = source_.config.has_window(1);  // kept as it is
  const ModelFolder turned = convert({.landmarks = 4, .conv = 3, .keep_exact = window ? "" : "1"});
  export_model(turned, folder_ / "exported", {.verify = true}, log_);
  const ModelConfig exported = ModelFolder(folder_ / "exported").config;
  EXPECT_EQ(exported.kind_of(0), AttentionKind::nystrom);
  EXPECT_EQ(exported.kind_of(1), AttentionKind::softmax);
}

INSTANTIATE_TEST_SUITE_P(All, ConvertArchitecture,
                         ::testing::ValuesIn(fixture_names("architectures")),
                         [](const auto& test) { return test.param; });

// ---- The command --------------------------------------------------------------------------------

class ConvertTest : public ProgramTest {
 protected:
  ConvertTest() : exact_(folder_ / "exact", tiny_exact_lm()) {
    write_lines(folder_ / "text.txt", tiny_lines(40, 3));
  }
  nlohmann::json result(const std::string& arguments) {
    return nlohmann::json::parse(run(arguments + " --quiet --json --threads 1").out);
  }
  void expect_error(const std::string& arguments, const std::string& message,
                    Caller caller = Caller::here()) {
    expect_refused("convert " + arguments + " --quiet", message, caller);
    EXPECT_FALSE(fs::exists(folder_ / "turned")) << arguments;
  }

  TinyCheckpoint exact_;
};

TEST_F(ConvertTest, SaysWhatItWrote) {
  EXPECT_EQ(run("convert exact turned --landmarks 4 --length 48 --keep-exact 1 --quiet").out,
            "turned: attention nystrom (layers 1: softmax), 4 landmarks, convolution of 33 taps, "
            "48 positions, " +
                std::to_string(exact_.model->parameters().count() + 24 * 6 + 2 * 2 * 33) +
                " parameters; train on with model.from before use\n");
  run("predict turned 'the [MASK]' --quiet");
}

TEST_F(ConvertTest, ComparesBothModelsOnAText) {
  const std::string options = " --text text.txt --set data.sequence_length=20";
  const nlohmann::json text = result("convert exact turned --landmarks 4" + options)["text"];
  const nlohmann::json parent = result("evaluate exact" + options),
                       turned = result("evaluate turned" + options);
  EXPECT_EQ(text["parent_loss"], parent["loss"]) << "the masks are those of nystrom evaluate";
  EXPECT_EQ(text["converted_loss"], turned["loss"]);
  EXPECT_NE(text["parent_loss"], text["converted_loss"]);
  EXPECT_EQ(text["tokens"], parent["tokens"]);
  EXPECT_EQ(text["sequence_length"], 20);
  EXPECT_EQ(text["layers"].size(), 2U);
  for (const auto& layer : text["layers"]) {
    EXPECT_LE(layer["errors"][0], 1e-6) << "32 landmarks are exact for 20 tokens";
    EXPECT_EQ(layer["advice"], nullptr) << "so nothing is learned of longer texts";
  }
}

TEST_F(ConvertTest, PrintsATable) {
  run("convert exact turned --landmarks 4 --text text.txt --quiet");
  for (const char* line : {"\nparent, exact ", "\nconverted ",
                           "\nlayer   kind            32      64     128     256    advice\n",
                           "\n0       nystrom      0.000   0.000   0.000   0.000         -\n",
                           "\nadvice: none, as no sequence has more than 32 tokens"})
    expect_says(last_.out, line);
}

TEST_F(ConvertTest, KeepsAConvolution) {
  ModelConfig config = tiny_exact_lm();
  config.attention.conv_kernel_size = 7;
  const TinyCheckpoint convolved(folder_ / "convolved", config);
  EXPECT_EQ(result("convert convolved turned --landmarks 4")["convolution"], 7);
  const auto model = load_model(ModelFolder(folder_ / "turned"), DType::f32, StoreMode::inference);
  for (const Parameter& parameter : convolved.model->parameters().parameters())
    EXPECT_EQ(model->parameters().master(parameter.name()).to_doubles(),
              convolved.model->parameters().master(parameter.name()).to_doubles());
}

TEST_F(ConvertTest, TurnsTransformersExactCase) {
  ModelConfig config = tiny_masked_lm();
  config.attention.semantics = Semantics::transformers;
  config.segment_means_seq_len = config.attention.num_landmarks;
  const TinyCheckpoint theirs(folder_ / "theirs", config);
  run("convert theirs turned --landmarks 4");
  const ModelConfig turned = ModelFolder(folder_ / "turned").config;
  EXPECT_EQ(turned.attention.semantics, Semantics::nystrom);
  EXPECT_EQ(turned.attention.num_landmarks, 4);
}

TEST(ConversionStudy, AdvisesTheFewestLandmarks) {
  EXPECT_EQ((LayerError{{0.5, 0.2, 0.1, 0.05}}.advised_landmarks(300)), 64);
  EXPECT_EQ((LayerError{{0.9, 0.8, 0.7, 0.6}}.advised_landmarks(300)), std::nullopt);
  EXPECT_EQ((LayerError{{0.9, 0.8, 0.0, 0.0}}.advised_landmarks(100)), std::nullopt);
}

/// Landmarks of a layer's own inputs, as the model itself would compute them.
TEST(ConversionStudy, ErrorsShrinkWithTheLandmarks) {
  ModelConfig config = tiny_exact_lm();
  config.max_position_embeddings = config.segment_means_seq_len = 200;
  const TemporaryFolder folder;
  const TinyCheckpoint parent(folder / "parent", config);
  write_lines(folder / "text.txt", tiny_lines(400, 3));
  const Outcome outcome =
      succeeded(run_program(folder,
                            "convert parent turned --text text.txt --json --quiet "
                            "--threads 1 --set data.sequence_length=200"));
  const nlohmann::json found = nlohmann::json::parse(outcome.out);
  for (const auto& layer : found["text"]["layers"]) {
    EXPECT_GT(layer["errors"][0], 0.01);
    EXPECT_LE(layer["errors"][3], 1e-6) << "256 landmarks are exact for 200 tokens";
  }
}

TEST_F(ConvertTest, RefusesOptions) {
  const std::string help = "; see nystrom convert --help";
  expect_error("exact exact", "exact: is not empty; name a new folder");
  expect_error("exact turned --landmarks 4 --set model.attention.num_landmarks=8",
               "--set model.attention.num_landmarks=8: the command sets "
               "model.attention.num_landmarks itself, to 4; use its own options");
  expect_error("exact turned --landmarks 4 --set 'model={attention: {kind: softmax}}'",
               "--set model={attention: {kind: softmax}}: the command sets model.attention.kind "
               "itself, to nystrom; use its own options");
  expect_error("exact turned --landmarks 0",
               "--landmarks: Value 0 not in range 1 to 16777216" + help);
  expect_error("exact turned --landmarks 25",
               "--landmarks 25 exceeds the 24 positions; a sequence has no more landmarks than "
               "tokens: lower it, or raise --length");
  expect_error("exact turned --conv 32 --landmarks 4", "--conv 32: expected an odd number of taps");
  expect_error("exact turned --conv 0", "--conv: Value 0 not in range 1 to 65536" + help);
  expect_error("exact turned --length 23 --landmarks 4",
               "--length 23: exact has 24 positions already; choose at least as many");
}

TEST_F(ConvertTest, RefusesLayers) {
  const std::string names = "names no layers; expected a layer or a range, such as 11 or 0-3";
  for (const char* layers : {"a", "1-0", "-1", "0-", "1;2"})
    expect_error(
        "exact turned --landmarks 4 '--keep-exact=" + std::string(layers) + "'",
        "--keep-exact " + std::string(layers) + ": attention.layers '" + layers + "' " + names);
  expect_error("exact turned --landmarks 4 --keep-exact 0,,1",
               "--keep-exact 0,,1: attention.layers '' " + names);
  expect_error("exact turned --landmarks 4 --keep-exact 0,2",
               "--keep-exact 0,2: attention.layers '2' exceeds num_hidden_layers 2, whose layers "
               "count from 0; lower it");
  expect_error("exact turned --landmarks 4 --keep-exact 0,0-1",
               "--keep-exact 0,0-1: attention.layers '0-1' and '0' both name layer 0; name each "
               "layer once");
  expect_error("exact turned --landmarks 4 --keep-exact 0-1",
               "--keep-exact 0-1: no layer that sees all tokens is left to convert; leave one out, "
               "give --conv for a convolution alone, or use nystrom extend");
}

TEST_F(ConvertTest, AddsAConvolutionAlone) {
  run("convert exact turned --landmarks 4 --keep-exact 0-1 --conv 3 --quiet");
  const auto measures = [&](const std::string& model) {
    return run("evaluate " + model + " --text text.txt --quiet --json").out;
  };
  EXPECT_EQ(measures("turned"), measures("exact"));
}

TEST_F(ConvertTest, RefusesToKeepWhatIsNotConverted) {
  ModelConfig config = tiny_exact_lm();
  config.attention.window = 4;
  config.attention.window_layers = {"1"};
  const TinyCheckpoint windows(folder_ / "windows", config);
  expect_error("windows turned --landmarks 4 --keep-exact 1",
               "--keep-exact 1: layers with a window are not converted; leave it out");
}

TEST_F(ConvertTest, RefusesModels) {
  const TinyCheckpoint nystrom(folder_ / "nystrom");
  expect_error("nystrom turned",
               "nystrom: its attention is nystrom, and nystrom convert turns exact attention "
               "(softmax); nystrom extend makes a model longer");
  ModelConfig config = tiny_exact_lm();
  config.attention.conv_kernel_size = 7;
  const TinyCheckpoint convolved(folder_ / "convolved", config);
  expect_error("convolved turned --landmarks 4 --conv 33",
               "--conv 33: convolved has a convolution of 7 taps, which is kept; leave --conv out");
  config.positions = Positions::none;
  const TinyCheckpoint placeless(folder_ / "placeless", config);
  expect_error("placeless turned --length 48 --landmarks 4",
               "--length 48: placeless has no position table and takes any length; leave --length "
               "out");
  write_bytes(folder_ / "gpt/config.json", R"({"model_type": "gpt2"})");
  expect_error("gpt turned",
               "gpt/config.json: model_type: expected one of nystrom, nystromformer, bert, "
               "camembert, distilbert, electra, modernbert, roberta, xlm-roberta, got \"gpt2\": a "
               "decoder reads "
               "earlier tokens only, and an encoder reads all; take a model of a listed type");
}

TEST_F(ConvertTest, RefusesTexts) {
  ModelConfig config = tiny_exact_lm();
  config.head = Head::token_classification;
  const TinyCheckpoint tokens(folder_ / "tokens", config);
  expect_error("tokens turned --landmarks 4 --text text.txt",
               "tokens: is a NystromformerForTokenClassification; expected a masked language "
               "model, NystromformerForMaskedLM");
  expect_error("exact turned --landmarks 4 --set data.documents=lines",
               "--set data.documents=lines: says how --text is read; give --text, or leave it out");
}

}  // namespace
}  // namespace nystrom::testing
