#include "train/state/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "tests/support/named.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"
#include "train/state/model_folder.h"

namespace nystrom {
namespace {

ModelConfig read(const std::string& text) { return parse_hf_config(text, "config.json"); }

TEST(HfConfig, AnEmptyObjectHasTheDefaultsOfHuggingFacesClass) {
  const ModelConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 30000);
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.num_hidden_layers, 12);
  EXPECT_EQ(config.num_attention_heads, 12);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.hidden_act, Activation::gelu_new);
  EXPECT_EQ(config.max_position_embeddings, 510);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_EQ(config.hidden_dropout_prob, 0.1);
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_EQ(config.pad_token_id, 1);
  EXPECT_EQ(config.attention.num_landmarks, 64);
  EXPECT_EQ(config.attention.conv_kernel_size, 65);
  EXPECT_EQ(config.segment_means_seq_len, 64);
  EXPECT_EQ(config.attention.semantics, Semantics::transformers);
  EXPECT_EQ(config.head, Head::none);
  EXPECT_EQ(config.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

TEST(HfConfig, UnknownKeysAreIgnored) {
  EXPECT_EQ(read(
                R"({"model_type": "nystromformer", "auto_map": {"AutoModel": "evil.Code"},
              "attention_probs_dropout_prob": "x", "hidden_size": 12})")
                .hidden_size,
            12);
}

TEST(HfConfig, ArchitecturesDecideTheHead) {
  for (const auto& entry : enum_names(Head{})) {
    const std::string own = "Nystrom" + std::string(entry.name).substr(13),  // python/export/
        end = entry.value == Head::masked_features
                  ? R"("], "nystrom": {"embed_dim": 4, "norm": "pre", "positions": "none"}})"
                  : "\"]}";
    EXPECT_EQ(read(R"({"architectures": [")" + own + end).head, entry.value) << own;
    EXPECT_EQ(read(R"({"architectures": [")" + std::string(entry.name) + end).head, entry.value)
        << entry.name;
  }
}

TEST(HfConfig, LabelsComeFromId2Label) {
  EXPECT_EQ(
      read(
          R"({"architectures": ["NystromformerForSequenceClassification"], "id2label": {"0": 1, "1": -2}})")
          .labels,
      (std::vector<std::string>{"1", "-2"}));
  EXPECT_EQ(
      read(
          R"({"architectures": ["NystromformerForSequenceClassification"], "id2label": {"1": "ja", "0": "no", "2": "?"}, "num_labels": 7})")
          .labels,
      (std::vector<std::string>{"no", "ja", "?"}));
}

TEST(HfConfig, LabelsComeFromNumLabelsWithoutId2Label) {
  EXPECT_EQ(
      read(R"({"architectures": ["NystromformerForSequenceClassification"], "num_labels": 1})")
          .labels,
      (std::vector<std::string>{"LABEL_0"}));
}

TEST(HfConfig, ANullKernelIsNoConvolution) {
  EXPECT_EQ(read(R"({"conv_kernel_size": null})").attention.conv_kernel_size, std::nullopt);
}

TEST(HfConfig, HarmlessFlagsAreAccepted) {
  EXPECT_EQ(read(R"({"is_decoder": false, "inv_coeff_init_option": false, "problem_type": null})")
                .hidden_size,
            768);
  EXPECT_EQ(
      read(R"({"problem_type": "single_label_classification", "model_type": "nystromformer"})")
          .hidden_size,
      768);
}

TEST(HfConfig, TheBlockWinsAndItsAbsenceMeansTransformers) {
  const std::string outer = R"("num_landmarks": 64, "conv_kernel_size": 1)";
  const ModelConfig with =
      read("{" + outer +
           R"(, "nystrom": {"attention": {"num_landmarks": 32, "conv_kernel_size": null}}})");
  EXPECT_EQ(with.attention.semantics, Semantics::nystrom);
  EXPECT_EQ(with.attention.num_landmarks, 32);
  EXPECT_EQ(with.attention.conv_kernel_size, std::nullopt);
  const ModelConfig without = read("{" + outer + "}");
  EXPECT_EQ(without.attention.semantics, Semantics::transformers);
  EXPECT_EQ(without.attention.num_landmarks, 64);
  EXPECT_EQ(without.attention.conv_kernel_size, 1);
}

TEST(HfConfig, KeysThatTheBlockLeavesOutComeFromOutside) {
  EXPECT_EQ(read(R"({"num_landmarks": 16, "nystrom": {}})").attention.num_landmarks, 16);
}

TEST(HfConfig, AnAbsentFileIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(input_error([&] { ModelFolder(folder.path()); }),
            (folder / "config.json").string() + ": cannot open: No such file or directory");
}

struct BadCase : testing::Named {
  const char* text;
  const char* message;  // after "config.json: "
};

#define ENCODER_REMAINS \
  "; nystrom embed, and a run with model.fresh_head: true, read the encoder alone"

#define MODEL_TYPES                                                                            \
  "model_type: expected one of nystrom, nystromformer, bert, camembert, distilbert, electra, " \
  "modernbert, roberta, xlm-roberta, got "
#define CLASSES                                                                   \
  "architectures: expected an array with one of NystromformerForMaskedLM, "       \
  "NystromformerForPreTraining, NystromformerForMaskedFeatures, "                 \
  "NystromformerForSequenceClassification, NystromformerForTokenClassification, " \
  "NystromformerForQuestionAnswering, NystromformerForMultipleChoice, NystromformerModel; got "
#define ACTIVATIONS                                                                     \
  "hidden_act: expected one of gelu, gelu_new, silu, relu, tanh, linear, gelu_python, " \
  "gelu_pytorch_tanh, gelu_fast, swish, got "
#define CLASSIFIER R"("architectures": ["NystromformerForSequenceClassification"])"

const BadCase bad_cases[] = {
    {"NotAnObject", "[]", "expected an object, got an empty array"},
    {"OtherModel", R"({"model_type": "gpt2"})",
     MODEL_TYPES "\"gpt2\": a decoder reads earlier tokens only, and an encoder reads all; take a "
                 "model of a listed type"},
    {"ATypeWithItsOwnCode", R"({"model_type": "mine", "auto_map": {"AutoModel": "mine.Mine"}})",
     MODEL_TYPES "\"mine\": its own Python code computes it, which is never run; take a model of a "
                 "listed type"},
    {"ModelTypeIsANumber", R"({"model_type": 1})", MODEL_TYPES "1; take a model of a listed type"},
    {"OurTypeWithoutItsBlock", R"({"model_type": "nystrom"})",
     "nystrom: is missing; a folder of model_type \"nystrom\" has its options there"},
    {"String", R"({"hidden_size": "768"})",
     "hidden_size: expected a whole number at least 1, got \"768\""},
    {"Fraction", R"({"hidden_size": 768.5})",
     "hidden_size: expected a whole number at least 1, got 768.5"},
    {"WholeFraction", R"({"hidden_size": 768.0})",
     "hidden_size: expected a whole number at least 1, got 768.0"},
    {"Null", R"({"hidden_size": null})",
     "hidden_size: expected a whole number at least 1, got null"},
    {"Boolean", R"({"hidden_size": true})",
     "hidden_size: expected a whole number at least 1, got true"},
    {"Array", R"({"hidden_size": [768]})",
     "hidden_size: expected a whole number at least 1, got an array"},
    {"Object", R"({"hidden_size": {}})",
     "hidden_size: expected a whole number at least 1, got an empty object"},
    {"Zero", R"({"vocab_size": 0})", "vocab_size: expected a whole number at least 1, got 0"},
    {"Negative", R"({"num_hidden_layers": -1})",
     "num_hidden_layers: expected a whole number at least 0, got -1"},
    {"Above63Bits", R"({"vocab_size": 18446744073709551615})",
     "vocab_size: expected a whole number at least 1, got 18446744073709551615"},
    {"Above64Bits", R"({"vocab_size": 18446744073709551616})",
     "vocab_size: expected a whole number at least 1, got 1.8446744073709552e+19"},
    {"DropoutOfOne", R"({"hidden_dropout_prob": 1})",
     "hidden_dropout_prob: expected a number at least 0 and below 1, got 1"},
    {"EpsilonZero", R"({"layer_norm_eps": 0})",
     "layer_norm_eps: expected a number between 1e-37 and 1, got 0"},
    {"EpsilonIsAString", R"({"layer_norm_eps": "1e-5"})",
     "layer_norm_eps: expected a number between 1e-37 and 1, got \"1e-5\""},
    {"EvenKernel", R"({"conv_kernel_size": 64})",
     "conv_kernel_size: expected an odd whole number at least 1, got 64"},
    {"NoLandmarks", R"({"num_landmarks": 0})",
     "num_landmarks: expected a whole number at least 1, got 0"},
    {"NoSegments", R"({"segment_means_seq_len": 0})",
     "segment_means_seq_len: expected a whole number at least 1, got 0"},
    {"UnknownActivation", R"({"hidden_act": "mish"})", ACTIVATIONS "\"mish\""},
    {"ActivationWithControls", "{\"hidden_act\": \"\\u001b[2J\x7f\"}",
     ACTIVATIONS "\"\\u001b[2J\\x7f\""},
    {"Decoder", R"({"is_decoder": true})",
     "is_decoder: a causal Nyström model cannot be built: landmarks are means over the whole "
     "sequence, so every position would see the future; set it to false"},
    {"Causal", R"({"causal": true})",
     "causal: a causal Nyström model cannot be built: landmarks are means over the whole sequence, "
     "so every position would see the future; set it to false"},
    {"DecoderIsANumber", R"({"is_decoder": 1})", "is_decoder: expected true or false, got 1"},
    {"InverseCoefficient", R"({"inv_coeff_init_option": true})",
     "inv_coeff_init_option: true crashes in transformers, so no model was made with it; set it to "
     "false"},
    {"InverseCoefficientNull", R"({"inv_coeff_init_option": null})",
     "inv_coeff_init_option: expected true or false, got null"},
    {"MultiLabelOfWords",
     R"({"architectures": ["NystromformerForTokenClassification"], "problem_type": "multi_label_classification"})",
     "problem_type: multi_label_classification is for a text; a word has one "
     "label" ENCODER_REMAINS},
    {"ProblemTypeIsANumber", "{" CLASSIFIER R"(, "problem_type": 1})",
     "problem_type: expected a string or null, got 1"},
    {"UnknownProblem", "{" CLASSIFIER R"(, "problem_type": "ranking"})",
     "problem_type: expected \"single_label_classification\", \"multi_label_classification\", "
     "\"regression\" or null, got \"ranking\""},
    {"RegressionOfSeveralNumbers",
     "{" CLASSIFIER R"(, "problem_type": "regression", "num_labels": 3})",
     "problem_type: regression with 3 labels; here a head of one label is a regression, any other "
     "a classification" ENCODER_REMAINS},
    {"ClassificationOfOneClass",
     "{" CLASSIFIER R"(, "problem_type": "single_label_classification", "num_labels": 1})",
     "problem_type: single_label_classification with 1 labels; here a head of one label is a "
     "regression, any other a classification" ENCODER_REMAINS},
    {"UnknownArchitecture", R"({"architectures": ["GPT2Model"]})",
     CLASSES "\"GPT2Model\"" ENCODER_REMAINS},
    {"TwoArchitectures", R"({"architectures": ["NystromformerModel", "NystromformerForMaskedLM"]})",
     CLASSES "an array of 2" ENCODER_REMAINS},
    {"ArchitectureIsAString", R"({"architectures": "NystromformerModel"})",
     CLASSES "\"NystromformerModel\"" ENCODER_REMAINS},
    {"LabelsAreAnArray", "{" CLASSIFIER R"(, "id2label": ["a"]})",
     "id2label: expected an object of labels, got an array"},
    {"LabelsAreEmpty", "{" CLASSIFIER R"(, "id2label": {}})",
     "id2label: expected an object of labels, got an empty object"},
    {"LabelsHaveAHole", "{" CLASSIFIER R"(, "id2label": {"0": "a", "2": "b"}})",
     "id2label: expected the keys \"0\" to \"1\", \"1\" is missing; number the labels from "
     "0" ENCODER_REMAINS},
    {"LabelKeyPadded", "{" CLASSIFIER R"(, "id2label": {"00": "a"}})",
     "id2label: expected the keys \"0\" to \"0\", \"0\" is missing; number the labels from "
     "0" ENCODER_REMAINS},
    {"LabelIsNull", "{" CLASSIFIER R"(, "id2label": {"0": null}})",
     "id2label.0: expected a string, got null"},
    {"NoLabels", "{" CLASSIFIER R"(, "num_labels": 0})",
     "num_labels: expected a whole number between 1 and 1000000, got 0"},
    {"TooManyLabels", "{" CLASSIFIER R"(, "num_labels": 1000000000000})",
     "num_labels: expected a whole number between 1 and 1000000, got 1000000000000"},
    {"BlockIsAnArray", R"({"nystrom": []})", "nystrom: expected an object, got an empty array"},
    {"BlockUnknownKey", R"({"nystrom": {"nrom": "pre"}})",
     "nystrom.nrom: unknown key; known are attention, bias, classifier_act, embed_dim, embedding, "
     "embedding_size, final_norm, first_attention_norm, head_transform, local_rope_theta, mlp, "
     "norm, pairs, pooling, position_offset, positions, rope_theta, sentence_order, transform_act"},
    {"BlockUnknownNorm", R"({"nystrom": {"norm": "layer"}})",
     "nystrom.norm: expected one of post, pre, got \"layer\""},
    {"AttentionIsNull", R"({"nystrom": {"attention": null}})",
     "nystrom.attention: expected an object, got null"},
    {"AttentionUnknownKey", R"({"nystrom": {"attention": {"landmarks": 3}}})",
     "nystrom.attention.landmarks: unknown key; known are bucket_size, conv_kernel_size, inverse, "
     "inverse_iterations, kind, landmark_source, layers, num_features, num_hashes, num_landmarks, "
     "projected_length, projection_sharing, random_seed, semantics, window, window_layers"},
    {"AttentionKindOfLayers", R"({"nystrom": {"attention": {"layers": {"0": "sofmax"}}}})",
     "nystrom.attention.layers.0: expected one of nystrom, softmax, double_softmax, linear, "
     "performer, linformer, reformer, none, got \"sofmax\""},
    {"AttentionLayersList", R"({"nystrom": {"attention": {"layers": [0]}}})",
     "nystrom.attention.layers: expected an object, got an array"},
    {"AttentionRange", R"({"nystrom": {"attention": {"inverse_iterations": -1}}})",
     "nystrom.attention.inverse_iterations: expected a whole number between 0 and 1000, got -1"},
    {"EmbedDimRange", R"({"nystrom": {"embed_dim": 0}})",
     "nystrom.embed_dim: expected a whole number at least 1, got 0"},
};

class BadHfConfig : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadHfConfig, IsRefusedWithTheReason) {
  EXPECT_EQ(input_error([&] { read(GetParam().text); }),
            std::string("config.json: ") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, BadHfConfig, ::testing::ValuesIn(bad_cases), testing::case_name);

TEST(HfConfig, SyntaxErrorsHaveAPlace) {
  EXPECT_EQ(input_error([] { read("{\"hidden_size\": 1,\n \"hidden_size\": 2}"); }),
            "config.json:2:14: key \"hidden_size\" appears twice");
}

TEST(HfConfig, ProblemsOfTheModelAreReportedTogether) {
  const std::string message =
      input_error([] { read(R"({"hidden_size": 100, "pad_token_id": 40000})"); });
  EXPECT_TRUE(message.starts_with(
      "config.json: hidden_size 100 is not divisible by num_attention_heads 12"))
      << message;
  expect_says(message, "; pad_token_id 40000 is outside the vocabulary");
}

/// A configuration without any default value.
ModelConfig unusual() {
  ModelConfig config;
  config.vocab_size = 77;
  config.hidden_size = 24;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.intermediate_size = 40;
  config.hidden_act = Activation::relu;
  config.max_position_embeddings = 96;
  config.type_vocab_size = 1;
  config.hidden_dropout_prob = 0.25;
  config.layer_norm_eps = 1e-12;
  config.initializer_range = 0.5;
  config.pad_token_id = 3;
  config.norm = Norm::pre;
  config.positions = Positions::none;
  config.position_offset = 7;
  config.mlp = Mlp::geglu;
  config.bias = config.first_attention_norm = false;
  config.final_norm = config.head_transform = true;
  config.transform_act = Activation::tanh;
  config.classifier_act = Activation::gelu;
  config.embed_dim = 5;
  config.attention = {AttentionKind::softmax,
                      {{"0-1", AttentionKind::linear}},
                      6,
                      {"2"},
                      Semantics::nystrom,
                      12,
                      LandmarkSource::keys,
                      Inverse::exact,
                      9,
                      std::nullopt};
  config.head = Head::sequence_classification;
  config.labels = {"nein", "j\xc3\xa4", "\"vielleicht\""};
  config.segment_means_seq_len = 48;
  return config;
}

TEST(HfConfig, WhatIsWrittenIsReadBack) {
  const ModelConfig written = unusual();
  const ModelConfig got = read(hf_config_text(written));
  EXPECT_EQ(hf_config_text(got), hf_config_text(written));
  EXPECT_EQ(got.labels, written.labels);
  EXPECT_EQ(got.head, written.head);
  EXPECT_EQ(got.embed_dim, written.embed_dim);
  EXPECT_EQ(got.norm, written.norm);
  EXPECT_EQ(got.position_offset, 7);
  EXPECT_EQ(got.transform_act, Activation::tanh);
  EXPECT_EQ(got.classifier_act, Activation::gelu);
  EXPECT_EQ(got.layer_norm_eps, written.layer_norm_eps);
  EXPECT_EQ(got.attention.conv_kernel_size, std::nullopt);
  EXPECT_EQ(got.attention.layers, written.attention.layers);
  EXPECT_EQ(got.attention.inverse, Inverse::exact);
  EXPECT_EQ(got.attention.inverse_iterations, 9);
  EXPECT_EQ(got.segment_means_seq_len, 48);
  ModelConfig rotated;
  rotated.positions = Positions::rope, rotated.rope_theta = 123;
  EXPECT_EQ(read(hf_config_text(rotated)).rope_theta, 123);
}

// ---- The class that a folder names --------------------------------------------------------------

struct TypeCase : testing::Named {
  void (*change)(ModelConfig&);
  const char* type;
};

using C = ModelConfig;

void as_transformers(C& c) {
  c.attention.semantics = Semantics::transformers, c.segment_means_seq_len = 512;
}
void exact(C& c) { c.attention.kind = AttentionKind::softmax; }
void classifier(C& c) { exact(c), c.head = Head::sequence_classification; }

const TypeCase types[] = {
    {"OurAttention", [](C&) {}, "nystrom"},
    {"OurAttentionWhereTransformersIsExact", [](C& c) { c.segment_means_seq_len = 64; }, "nystrom"},
    {"ExactAttention", [](C& c) { exact(c), c.segment_means_seq_len = 512; }, "nystromformer"},
    {"Transformers", as_transformers, "nystromformer"},
    {"TransformersExactCase", [](C& c) { as_transformers(c), c.segment_means_seq_len = 64; },
     "nystromformer"},
    {"OtherIterations", [](C& c) { as_transformers(c), c.attention.inverse_iterations = 5; },
     "nystrom"},
    {"OtherInverse", [](C& c) { as_transformers(c), c.attention.inverse = Inverse::exact; },
     "nystrom"},
    {"LandmarksOfKeys",
     [](C& c) { as_transformers(c), c.attention.landmark_source = LandmarkSource::keys; },
     "nystrom"},
    {"Linear", [](C& c) { c.attention.kind = AttentionKind::linear; }, "nystrom"},
    {"KindsByLayer",
     [](C& c) {
       c.attention.layers = {{"0-3", AttentionKind::softmax}};
     },
     "nystrom"},
    {"ExactAttentionInEveryLayer",
     [](C& c) {
       c.attention.layers = {{"0-11", AttentionKind::softmax}};
     },
     "nystromformer"},
    {"PreNorm", [](C& c) { exact(c), c.norm = Norm::pre; }, "nystrom"},
    {"NoPositions", [](C& c) { exact(c), c.positions = Positions::none; }, "nystrom"},
    {"BertsPositions", [](C& c) { exact(c), c.position_offset = 0; }, "nystrom"},
    {"RobertasPositions", [](C& c) { exact(c), c.positions = Positions::skip_padding; }, "nystrom"},
    {"NoTokenTypes", [](C& c) { exact(c), c.type_vocab_size = 0; }, "nystrom"},
    {"NarrowEmbeddings", [](C& c) { exact(c), c.embedding_size = 128; }, "nystrom"},
    {"OtherTransform", [](C& c) { exact(c), c.transform_act = Activation::gelu; }, "nystrom"},
    {"OtherClassifierOfNoClassifier", [](C& c) { exact(c), c.classifier_act = Activation::tanh; },
     "nystromformer"},
    {"MeanPooling", [](C& c) { classifier(c), c.pooling = Pooling::mean; }, "nystrom"},
    {"MeanPoolingOfNoClassifier", [](C& c) { exact(c), c.pooling = Pooling::mean; },
     "nystromformer"},
    {"Towers", [](C& c) { classifier(c), c.pairs = Pairs::towers; }, "nystrom"},
};

class ModelTypeOf : public ::testing::TestWithParam<TypeCase> {};

/// The class of transformers is named only when it computes the same results. The configuration
/// must be read back unchanged.
TEST_P(ModelTypeOf, IsTransformersWhereItComputesTheSame) {
  ModelConfig config;
  GetParam().change(config);
  const std::string text = hf_config_text(config);
  EXPECT_EQ(parse_json(text, "text")["model_type"], GetParam().type);
  EXPECT_EQ(hf_config_text(read(text)), text);
  EXPECT_EQ(parse_json(hf_config_text(config, NamedClasses::of_transformers), "text")["model_type"],
            "nystromformer")
      << "an export is explicit";
}

INSTANTIATE_TEST_SUITE_P(All, ModelTypeOf, ::testing::ValuesIn(types), testing::case_name);

TEST(HfConfig, ArchitecturesAndTheAutoMapNameTheClassesOfTheFolder) {
  ModelConfig config;
  config.head = Head::question_answering;
  const auto root = parse_json(hf_config_text(config, NamedClasses::in_folder), "text");
  EXPECT_EQ(root["architectures"], nlohmann::json::array({"NystromForQuestionAnswering"}));
  EXPECT_EQ(root["auto_map"]["AutoConfig"], "configuration_nystrom.NystromConfig");
  EXPECT_EQ(root["auto_map"]["AutoModel"], "modeling_nystrom.NystromModel");
  EXPECT_EQ(root["auto_map"]["AutoModelForQuestionAnswering"],
            "modeling_nystrom.NystromForQuestionAnswering");
  EXPECT_EQ(root["auto_map"].size(), 8U) << "the configuration, the encoder and six heads";
}

TEST(HfConfig, ACheckpointHasNoAutoMap) {
  EXPECT_FALSE(parse_json(hf_config_text(ModelConfig{}), "text").contains("auto_map"))
      << "it holds no classes";
}

TEST(HfConfig, ExactAttentionIsStatedSoThatTransformersComputesIt) {
  ModelConfig config;
  config.attention.kind = AttentionKind::softmax;
  config.segment_means_seq_len = 512;
  EXPECT_EQ(parse_json(hf_config_text(config), "text")["segment_means_seq_len"],
            config.attention.num_landmarks);
}

TEST(HfConfig, FoldersOfOlderVersionsAreReadWhateverTheyName) {
  ModelConfig config;
  config.attention.kind = AttentionKind::linear;
  nlohmann::json root = parse_json(hf_config_text(config), "text");
  root["model_type"] = "nystromformer";
  root["bos_token_id"] = 0;
  root["eos_token_id"] = 2;
  EXPECT_EQ(read(root.dump()).attention.kind, AttentionKind::linear);
}

TEST(HfConfig, TheProblemTypeIsThatOfTheHead) {
  const auto type_of = [](Head head, const std::vector<std::string>& labels) {
    ModelConfig config;
    config.head = head;
    config.labels = labels;
    return parse_json(hf_config_text(config), "text").value("problem_type", nlohmann::json());
  };
  EXPECT_EQ(type_of(Head::sequence_classification, {"LABEL_0"}), "regression");
  EXPECT_EQ(type_of(Head::sequence_classification, {"LABEL_0", "LABEL_1"}),
            "single_label_classification");
  EXPECT_EQ(type_of(Head::sequence_classification, {"a", "b", "c"}), "single_label_classification");
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"a"}, {"LABEL_0", "LABEL_1"}, {"a", "b", "c"}}) {
    ModelConfig config;
    config.head = Head::sequence_classification;
    config.labels = labels;
    config.multi_label = true;
    const std::string text = hf_config_text(config);
    EXPECT_EQ(parse_json(text, "text")["problem_type"], "multi_label_classification");
    EXPECT_TRUE(read(text).multi_label);
    EXPECT_EQ(read(text).labels, labels);
  }
  for (const Head head : {Head::masked_lm, Head::token_classification, Head::question_answering,
                          Head::multiple_choice, Head::none})
    EXPECT_EQ(type_of(head, {"a", "b"}), nullptr) << "transformers has no word for it";
}

TEST(HfConfig, TheEndsOfATextAreTheTokenizers) {
  ModelConfig config;
  set_text_ends(config, {.cls = 7, .sep = 8, .pad = 0, .mask = 4, .unk = 1});
  nlohmann::json root = parse_json(hf_config_text(config), "text");
  EXPECT_EQ(root["bos_token_id"], 7);
  EXPECT_EQ(root["eos_token_id"], 8);
  EXPECT_EQ(read(root.dump()).eos_token_id, 8);
  set_text_ends(config, {.cls = no_id, .sep = no_id, .pad = 0, .mask = 4, .unk = 1});
  root = parse_json(hf_config_text(config), "text");
  EXPECT_TRUE(root["bos_token_id"].is_null() && root["eos_token_id"].is_null())
      << "else transformers takes its defaults";
  root["eos_token_id"] = {1, 2};
  EXPECT_EQ(read(root.dump()).eos_token_id, std::nullopt) << "other programs write lists";
}

TEST(HfConfig, LabelsThatAreNotUtf8AreRefused) {
  ModelConfig config;
  config.labels = {"\xff"};
  EXPECT_EQ(input_error([&] { hf_config_text(config); }), "labels: expected UTF-8, got \\xff");
}

TEST(HfConfig, TheWrittenKeysAreHuggingFacesAndOurBlock) {
  ModelConfig config;
  config.attention.conv_kernel_size.reset();
  const nlohmann::json root = parse_json(hf_config_text(config), "text");
  std::string keys;
  for (const auto& [key, value] : root.items()) keys += key + " ";
  EXPECT_EQ(keys,
            "architectures attention_probs_dropout_prob bos_token_id conv_kernel_size eos_token_id "
            "hidden_act hidden_dropout_prob hidden_size initializer_range intermediate_size "
            "inv_coeff_init_option layer_norm_eps max_position_embeddings model_type "
            "num_attention_heads num_hidden_layers num_landmarks nystrom pad_token_id "
            "segment_means_seq_len transformers_version type_vocab_size vocab_size ");
  EXPECT_EQ(root["attention_probs_dropout_prob"], 0.0) << "a run has trained without any";
  EXPECT_EQ(root["conv_kernel_size"], 1);
  EXPECT_EQ(root["nystrom"]["attention"]["conv_kernel_size"], nullptr);
}

}  // namespace
}  // namespace nystrom
