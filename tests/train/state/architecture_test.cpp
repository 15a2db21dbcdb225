// Folders of BERT's family: options, classes and names of tensors. The results of their models are
// compared in tests/train/export/golden_test.cpp.
#include "train/state/architecture.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/named.h"
#include "train/state/hf_config.h"

namespace nystrom::testing {
namespace {

ModelConfig read(const std::string& text) { return parse_hf_config(text, "config.json"); }

TEST(Architecture, BertsDefaults) {
  const ModelConfig c = read(R"({"model_type": "bert"})");
  EXPECT_EQ(c.vocab_size, 30522);
  EXPECT_EQ(c.max_position_embeddings, 512);
  EXPECT_EQ(c.position_rows(), 512);
  EXPECT_EQ(c.layer_norm_eps, 1e-12);
  EXPECT_EQ(c.hidden_act, Activation::gelu);
  EXPECT_EQ(c.pad_token_id, 0);
  EXPECT_EQ(c.head, Head::none);
  EXPECT_EQ(c.attention.kind, AttentionKind::softmax);
  EXPECT_EQ(c.attention.semantics, Semantics::nystrom);
  EXPECT_EQ(c.attention.conv_kernel_size, std::nullopt);
  EXPECT_EQ(c.classifier_activation(), Activation::tanh);
}

TEST(Architecture, RobertasPositionsBeginBehindThatOfPadding) {
  const ModelConfig c = read(R"({"model_type": "roberta", "max_position_embeddings": 514})");
  EXPECT_EQ(c.vocab_size, 50265);
  EXPECT_EQ(c.positions, Positions::skip_padding);
  EXPECT_EQ(c.position_offset, 2);
  EXPECT_EQ(c.max_position_embeddings, 512);
  EXPECT_EQ(c.position_rows(), 514);
}

TEST(Architecture, DistilbertHasKeysOfItsOwn) {
  const ModelConfig c = read(R"({"model_type": "distilbert", "dim": 24, "n_layers": 3,
      "n_heads": 4, "hidden_dim": 40, "activation": "relu", "dropout": 0.25,
      "intermediate_size": 99, "type_vocab_size": 2, "layer_norm_eps": 1})");
  EXPECT_EQ(c.hidden_size, 24);
  EXPECT_EQ(c.num_hidden_layers, 3);
  EXPECT_EQ(c.num_attention_heads, 4);
  EXPECT_EQ(c.intermediate_size, 40);
  EXPECT_EQ(c.hidden_act, Activation::relu);
  EXPECT_EQ(c.hidden_dropout_prob, 0.25);
  EXPECT_EQ(c.type_vocab_size, 0);
  EXPECT_EQ(c.layer_norm_eps, 1e-12);
}

TEST(Architecture, ElectraHasEmbeddingsOfAnotherWidth) {
  const ModelConfig c =
      read(R"({"model_type": "electra", "architectures": ["ElectraForPreTraining"]})");
  EXPECT_EQ(c.hidden_size, 256);
  EXPECT_EQ(c.embedding_width(), 128);
  EXPECT_EQ(c.head, Head::replaced_tokens);
}

TEST(Architecture, WhatIsWrittenIsReadBack) {
  for (const Architecture& each : architectures()) {
    const ModelConfig c = read(R"({"model_type": ")" + std::string(each.model_type) + "\"}");
    const std::string text = hf_config_text(c);
    EXPECT_EQ(hf_config_text(read(text)), text) << each.model_type;
  }
}

struct BadCase : Named {
  const char* text;
  const char* message;  // after "config.json: "
};

TEST(Architecture, NullStandsForTheDefault) {
  const ModelConfig config =
      read(R"({"model_type": "bert", "id2label": null, "is_decoder": null})");
  EXPECT_EQ(config.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
}

#define ENCODER_REMAINS \
  "; nystrom embed, and a run with model.fresh_head: true, read the encoder alone"

const BadCase bad_cases[] = {
    {"NoModelType", R"({"architectures": ["XLMRobertaModel"]})",
     "model_type: is missing; a XLMRobertaModel has \"xlm-roberta\""},
    {"RelativePositions",
     R"({"model_type": "bert", "position_embedding_type": "relative_key_query"})",
     "position_embedding_type: expected \"absolute\", got \"relative_key_query\"; nystrom has no "
     "relative positions, and without them the model is another"},
    {"PositionsOfNull", R"({"model_type": "bert", "position_embedding_type": null})",
     "position_embedding_type: expected \"absolute\", got null; nystrom has no relative positions, "
     "and without them the model is another"},
    {"RelativePositionsOfNystromformer",
     R"({"model_type": "nystromformer", "position_embedding_type": "relative_key"})",
     "position_embedding_type: expected \"absolute\", got \"relative_key\"; nystrom has no "
     "relative positions, and without them the model is another"},
    {"TwoNamesOfOneNumber",
     R"({"model_type": "distilbert", "n_heads": 12, "num_attention_heads": 4})",
     "num_attention_heads: is 4, and n_heads, which means the same, is 12; remove one"},
    {"PositionsWithoutPadding", R"({"model_type": "roberta", "pad_token_id": null})",
     "pad_token_id: expected a whole number at least 0, got null"},
    {"Decoder", R"({"model_type": "roberta", "is_decoder": true})",
     "is_decoder: a decoder reads earlier tokens only, and an encoder reads all; set it to false "
     "if the model was trained as an encoder"},
    {"CrossAttention", R"({"model_type": "bert", "add_cross_attention": true})",
     "add_cross_attention: expected false, got true; nystrom has no cross attention; choose an "
     "encoder"},
    {"EncoderAndDecoder", R"({"model_type": "bert", "is_encoder_decoder": true})",
     "is_encoder_decoder: expected false, got true; nystrom has no decoder; choose an encoder"},
    {"PrunedHeads", R"({"model_type": "bert", "pruned_heads": {"1": [0, 2]}})",
     "pruned_heads: expected {}, got an object; nystrom's layers have all their heads"},
    {"Quantized", R"({"model_type": "xlm-roberta", "quantization_config": {"load_in_8bit": true}})",
     "quantization_config: expected null, got an object; nystrom reads plain weights; save the "
     "model without quantization"},
    {"SummaryOfTheLastToken",
     R"({"model_type": "electra", "summary_type": "last",
         "architectures": ["ElectraForMultipleChoice"]})",
     "summary_type: expected \"first\", got \"last\"; nystrom's choice head reads the first token"},
    {"OtherActivation", R"({"model_type": "bert", "hidden_act": "mish"})",
     "hidden_act: expected one of gelu, gelu_new, silu, relu, tanh, linear, gelu_python, "
     "gelu_pytorch_tanh, gelu_fast, swish, got \"mish\""},
    {"KeyOfDistilbert", R"({"model_type": "distilbert", "dim": "768"})",
     "dim: expected a whole number at least 1, got \"768\""},
    {"ActivationOfDistilbert", R"({"model_type": "distilbert", "activation": "mish"})",
     "activation: expected one of gelu, gelu_new, silu, relu, tanh, linear, gelu_python, "
     "gelu_pytorch_tanh, gelu_fast, swish, got \"mish\""},
    {"NoPositions", R"({"model_type": "roberta", "max_position_embeddings": 2})",
     "max_position_embeddings: expected at least 3, because positions begin behind row "
     "pad_token_id 1; got 2"},
    {"LanguageModelOfADecoder", R"({"model_type": "bert", "architectures": ["BertLMHeadModel"]})",
     "architectures: expected an array with one of BertForMaskedLM, BertForSequenceClassification, "
     "BertForTokenClassification, BertForQuestionAnswering, BertForMultipleChoice, BertModel, "
     "BertForPreTraining; got \"BertLMHeadModel\"" ENCODER_REMAINS},
    {"ClassOfAnotherArchitecture",
     R"({"model_type": "xlm-roberta", "architectures": ["RobertaForMaskedLM"]})",
     "architectures: expected an array with one of XLMRobertaForMaskedLM, "
     "XLMRobertaForSequenceClassification, XLMRobertaForTokenClassification, "
     "XLMRobertaForQuestionAnswering, XLMRobertaForMultipleChoice, XLMRobertaModel; got "
     "\"RobertaForMaskedLM\"" ENCODER_REMAINS},
    {"PaddingOutsideTheVocabulary",
     R"({"model_type": "roberta", "vocab_size": 10, "pad_token_id": 10})",
     "pad_token_id 10 is outside the vocabulary; expected an id below vocab_size 10"},
    {"SeveralLabelsAWord",
     R"({"architectures": ["BertForTokenClassification"], "model_type": "bert", "problem_type": "multi_label_classification"})",
     "problem_type: multi_label_classification is for a text; a word has one "
     "label" ENCODER_REMAINS},
};

class BadArchitecture : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadArchitecture, IsRefusedWithTheReason) {
  EXPECT_EQ(message_of([&] { read(GetParam().text); }),
            std::string("config.json: ") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, BadArchitecture, ::testing::ValuesIn(bad_cases), case_name);

// ---- Names of tensors ---------------------------------------------------------------------------

struct NameCase {
  const char* model_type;
  Head head;
  const char* tensor;
  const char* parameter;  // null: not read
};

constexpr NameCase names[] = {
    {"bert", Head::none, "bert.embeddings.LayerNorm.gamma",
     "nystromformer.embeddings.LayerNorm.weight"},
    {"bert", Head::none, "embeddings.LayerNorm.beta", "nystromformer.embeddings.LayerNorm.bias"},
    {"bert", Head::none, "cls.predictions.bias", nullptr},
    {"bert", Head::masked_lm, "bert.pooler.dense.weight", nullptr},
    {"bert", Head::masked_lm, "cls.seq_relationship.weight", nullptr},
    {"bert", Head::masked_lm, "bert.embeddings.position_ids", nullptr},
    {"bert", Head::masked_lm, "cls.predictions.decoder.weight", "cls.predictions.decoder.weight"},
    {"roberta", Head::masked_lm, "lm_head.decoder.weight", "cls.predictions.decoder.weight"},
    {"electra", Head::masked_lm, "generator_lm_head.weight", "cls.predictions.decoder.weight"},
    {"distilbert", Head::masked_lm, "vocab_projector.weight", "cls.predictions.decoder.weight"},
    {"bert", Head::masked_lm, "cls.predictions.decoder.bias", "cls.predictions.bias"},
    {"bert", Head::sequence_classification, "bert.pooler.dense.bias", "classifier.dense.bias"},
    {"bert", Head::sequence_classification, "classifier.weight", "classifier.out_proj.weight"},
    {"bert", Head::token_classification, "classifier.weight", "classifier.weight"},
    {"bert", Head::multiple_choice, "bert.pooler.dense.bias", "pre_classifier.bias"},
    {"camembert", Head::masked_lm, "lm_head.layer_norm.weight",
     "cls.predictions.transform.LayerNorm.weight"},
    {"roberta", Head::sequence_classification, "classifier.out_proj.bias",
     "classifier.out_proj.bias"},
    {"distilbert", Head::none, "distilbert.transformer.layer.11.sa_layer_norm.weight",
     "nystromformer.encoder.layer.11.attention.output.LayerNorm.weight"},
    {"distilbert", Head::none, "transformer.layer.0.output_layer_norm.bias",
     "nystromformer.encoder.layer.0.output.LayerNorm.bias"},
    {"distilbert", Head::masked_lm, "vocab_projector.bias", "cls.predictions.bias"},
    {"distilbert", Head::sequence_classification, "pre_classifier.bias", "classifier.dense.bias"},
    {"electra", Head::masked_lm, "electra.embeddings_project.weight",
     "nystromformer.embeddings.projection.weight"},
    {"electra", Head::none, "discriminator_predictions.dense.weight", nullptr},
};

TEST(Architecture, KeysThatTransformersTakesForOthers) {
  EXPECT_EQ(read(R"({"model_type": "distilbert", "num_attention_heads": 4})").num_attention_heads,
            4);
  EXPECT_EQ(
      read(R"({"model_type": "modernbert", "position_embedding_type": "sans_pos"})").positions,
      Positions::rope);
  for (const char* type : {"modernbert", "bert"})
    EXPECT_EQ(
        read(fmt::format(R"({{"model_type": "{}", "pad_token_id": null, "vocab_size": 9}})", type))
            .pad_token_id,
        std::nullopt);
  EXPECT_EQ(message_of([] { read(R"({"pad_token_id": null})"); }),
            "config.json: pad_token_id is null, but positions skip_padding and "
            "attention.semantics transformers read padding; set it to the tokenizer's");
}

TEST(Architecture, TensorsHaveTheirNamesHere) {
  for (const NameCase& each : names) {
    const auto name = find_architecture(each.model_type)->parameter_name(each.tensor, each.head);
    EXPECT_EQ(name.value_or("not read"), each.parameter ? each.parameter : "not read")
        << each.model_type << " " << each.tensor;
  }
}

TEST(Architecture, MessagesHaveTheNamesOfTheFile) {
  for (const NameCase& each : names) {
    const Architecture& architecture = *find_architecture(each.model_type);
    if (each.parameter == nullptr) continue;
    const std::string tensor = architecture.tensor_name(each.parameter, each.head);
    EXPECT_EQ(architecture.parameter_name(tensor, each.head).value_or(""), each.parameter)
        << tensor;
  }
  EXPECT_EQ(find_architecture("distilbert")
                ->tensor_name("nystromformer.encoder.layer.0.attention.output.LayerNorm.bias",
                              Head::none),
            "distilbert.transformer.layer.0.sa_layer_norm.bias");
  EXPECT_EQ(find_architecture("bert")->tensor_name("classifier.dense.weight",
                                                   Head::sequence_classification),
            "bert.pooler.dense.weight");
}

}  // namespace
}  // namespace nystrom::testing
