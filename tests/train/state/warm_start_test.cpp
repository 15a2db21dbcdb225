// Weights of BERT's family: what a run starts from, and folders that do not fit.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "tests/support/errors.h"
#include "tests/support/fixtures.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"
#include "train/state/hf_config.h"
#include "train/state/model_folder.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

class WarmStart : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path model_ = folder_.path() / "model";

  /// Copies a fixture, which the test may then damage.
  void take(const std::string& name) {
    fs::copy(fixture_folder() / "architectures" / name, model_);
  }
  void set_option(const std::string& key, const nlohmann::json& value) {
    nlohmann::json config = read_json_file(model_ / "config.json");
    config[key] = value;
    write_bytes(model_ / "config.json", config.dump());
  }
  /// Rewrites the weights: `change` gets all tensors.
  template <class F>
  void change_tensors(const F& change) {
    const fs::path file = model_ / "model.safetensors";
    auto tensors = read_tensors(file);
    change(tensors);
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
    fs::remove(file);
    write_safetensors(file, named);
  }
  std::string loading_error() const {
    return message_of([&] { load_model(ModelFolder(model_), DType::f32, StoreMode::inference); });
  }
  std::string in_model(const std::string& message) const { return model_.string() + message; }
  /// The error of a start with options that `change` sets.
  template <class F>
  std::string start_error(const F& change) const {
    const ModelFolder folder(model_);
    ModelConfig config = folder.config;
    change(config);
    return message_of([&] { check_start(config, folder, false); });
  }
  StartWeights start(Head head, Pairs pairs = Pairs::joined) {
    const ModelFolder folder(model_);
    ModelConfig config = folder.config;
    config.head = head;
    config.pairs = pairs;
    started_ = std::make_unique<Model>(config);
    started_->parameters().allocate(DType::f32, StoreMode::training);
    return initialise_from(*started_, folder, 1, false);
  }

  std::unique_ptr<Model> started_;
};

TEST_F(WarmStart, AClassifierBeginsWithBertsPooler) {
  take("bert_choice");
  const StartWeights weights = start(Head::sequence_classification);
  EXPECT_EQ(weights.fresh, (Strings{"classifier.out_proj.weight", "classifier.out_proj.bias"}));
  EXPECT_EQ(weights.unused, (Strings{"classifier.bias", "classifier.weight"}));
  const auto stored = read_tensors(model_ / "model.safetensors");
  EXPECT_EQ(started_->parameters().master("classifier.dense.weight").to_doubles(),
            stored.at("bert.pooler.dense.weight").to_doubles());
}

TEST_F(WarmStart, APoolerOfAnotherWidthIsUnused) {
  take("bert_choice");
  const StartWeights weights = start(Head::sequence_classification, Pairs::towers);
  EXPECT_EQ(weights.fresh.size(), 4U);
  EXPECT_EQ(weights.unused, (Strings{"bert.pooler.dense.bias", "bert.pooler.dense.weight",
                                     "classifier.bias", "classifier.weight"}));
}

TEST_F(WarmStart, AHeadOfAnotherKindIsFresh) {
  take("roberta_mlm");
  const StartWeights weights = start(Head::token_classification);
  EXPECT_EQ(weights.fresh, (Strings{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(weights.unused, (Strings{"lm_head.bias", "lm_head.dense.bias", "lm_head.dense.weight",
                                     "lm_head.layer_norm.bias", "lm_head.layer_norm.weight"}));
}

TEST_F(WarmStart, ModernBertsHeadsShareTheirFirstLayer) {
  take("modernbert_mlm");
  const auto stored = read_tensors(model_ / "model.safetensors");
  const auto expect_shared = [&] {
    const StartWeights weights = start(Head::token_classification);
    EXPECT_EQ(weights.fresh, (Strings{"classifier.weight", "classifier.bias"}));
    EXPECT_EQ(started_->parameters().master("transform.dense.weight").to_doubles(),
              stored.at("head.dense.weight").to_doubles());
  };
  expect_shared();
  const auto ours = load_model(ModelFolder(model_), DType::f32, StoreMode::inference);
  fs::remove_all(model_);
  fs::create_directory(model_);
  write_bytes(model_ / "config.json", hf_config_text(ours->config()));
  write_safetensors(model_ / "model.safetensors", weight_tensors(*ours));
  expect_shared();
}

TEST_F(WarmStart, TheFirstLayerOfAnUnreadHeadIsFresh) {
  take("modernbert_mlm");
  set_option("classifier_activation", "mish");
  const ModelFolder folder(model_, HeadUse::replaceable);
  EXPECT_EQ(folder.config.head, Head::none);
  ModelConfig config = folder.config;
  config.head = Head::token_classification;
  Model model(config);
  model.parameters().allocate(DType::f32, StoreMode::training);
  EXPECT_EQ(initialise_from(model, folder, 1, false).fresh.size(), 4U);
}

TEST_F(WarmStart, ABareModernBertHasNoFirstLayerOfAHead) {
  take("modernbert_model");
  EXPECT_EQ(start(Head::token_classification).fresh.size(), 4U);
}

TEST_F(WarmStart, WeightsThatNoModelReadsAreNamed) {
  take("bert_pretraining");
  const Strings unread = {"bert.pooler.dense.bias", "bert.pooler.dense.weight",
                          "cls.seq_relationship.bias", "cls.seq_relationship.weight"};
  EXPECT_EQ(start(Head::masked_lm).unused, unread);
  EXPECT_EQ(unread_tensors(ModelFolder(model_)), unread);
}

TEST_F(WarmStart, AProjectionOfVectorsIsFreshOnAnyEncoder) {
  take("bert_model");
  const ModelFolder folder(model_);
  ModelConfig config = folder.config;
  config.embedding.projection = 8;
  started_ = std::make_unique<Model>(config);
  started_->parameters().allocate(DType::f32, StoreMode::training);
  EXPECT_EQ(initialise_from(*started_, folder, 1, false).fresh,
            (Strings{"embedding.projection.weight", "embedding.projection.bias"}));
}

// ---- Decoders of their own ----------------------------------------------------------------------

/// A fixture, and its tensors of words and of the decoder.
struct DecoderCase {
  const char *fixture, *words, *decoder;
};

TEST_F(WarmStart, AStoredDecoderUnlikeTheEmbeddingsIsUsed) {
  const DecoderCase cases[] = {
      {"bert_mlm", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
      {"roberta_mlm", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
      {"distilbert_mlm", "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"},
      {"electra_generator", "electra.embeddings.word_embeddings.weight",
       "generator_lm_head.weight"}};
  for (const DecoderCase& each : cases) {
    SCOPED_TRACE(each.fixture);
    fs::remove_all(model_);
    take(each.fixture);
    std::vector<double> values;
    change_tensors([&](auto& tensors) {
      values = tensors.at(each.words).to_doubles();
      for (double& value : values) value += 0.5;
      tensors[each.decoder] = Tensor::from(values, tensors.at(each.words).shape()).cast(DType::f32);
    });
    const ModelFolder folder(model_);
    ASSERT_FALSE(folder.config.tie_word_embeddings);
    const auto model = load_model(folder, DType::f64, StoreMode::inference);
    const auto got = model->parameters().master("cls.predictions.decoder.weight").to_doubles();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], values[i], 1e-6);
    // The option ties it again.
    const ModelFolder tied(model_, HeadUse::kept, {"model.tie_word_embeddings=true"});
    EXPECT_TRUE(tied.config.tie_word_embeddings);
    EXPECT_EQ(unread_tensors(tied), Strings{each.decoder});
  }
}

TEST_F(WarmStart, ABiasOfTheDecoderUnlikeTheHeadsIsTold) {
  take("bert_mlm");
  const std::string bias = "cls.predictions.bias", of_decoder = "cls.predictions.decoder.bias";
  const auto differs = [&] { return has_unlike_biases(ModelFolder(model_)); };
  EXPECT_FALSE(differs());
  change_tensors([&](auto& tensors) { tensors[of_decoder] = tensors.at(bias); });
  EXPECT_FALSE(differs());
  change_tensors([&](auto& tensors) {
    tensors[of_decoder] = Tensor::full(tensors.at(bias).shape(), 0.5, DType::f32);
  });
  EXPECT_TRUE(differs());
  const auto model = load_model(ModelFolder(model_), DType::f64, StoreMode::inference);
  EXPECT_EQ(model->parameters().master(bias).to_doubles()[0], 0.5);
  change_tensors([&](auto& tensors) { tensors[of_decoder] = Tensor::full({3}, 0.5, DType::f32); });
  EXPECT_EQ(loading_error(), in_model(": the weights do not fit the model; mismatched: "
                                      "cls.predictions.bias is [3], expected [30]"));
}

TEST_F(WarmStart, ABiasOfTheDecoderAloneIsTheHeads) {
  const std::string bias = "cls.predictions.bias";
  for (const char* name : {"architectures/bert_mlm", "hf/mlm_exact_padded"}) {
    fs::remove_all(model_);
    fs::copy(fixture_folder() / name, model_);
    std::vector<double> values;
    change_tensors([&](auto& tensors) {
      values = tensors.at(bias).to_doubles();
      tensors["cls.predictions.decoder.bias"] = tensors.at(bias);
      tensors.erase(bias);
    });
    const auto model = load_model(ModelFolder(model_), DType::f64, StoreMode::inference);
    EXPECT_EQ(model->parameters().master(bias).to_doubles(), values) << name;
  }
}

TEST_F(WarmStart, ACopyOfTheEmbeddingsStaysTied) {
  take("bert_mlm");
  change_tensors([](auto& tensors) {
    tensors["cls.predictions.decoder.weight"] =
        tensors.at("bert.embeddings.word_embeddings.weight");
  });
  EXPECT_TRUE(ModelFolder(model_).config.tie_word_embeddings);
  EXPECT_EQ(start(Head::masked_lm).unused, Strings{});
}

TEST_F(WarmStart, TheNameOfARegressionsLabelDoesNotMatter) {
  take("bert_regression_relu");
  set_option("id2label", {{"0", "score"}});
  ASSERT_EQ(ModelFolder(model_).config.labels, Strings{"score"});
  EXPECT_EQ(start_error([](ModelConfig& c) { c.labels = {"LABEL_0"}; }), "");
}

TEST_F(WarmStart, TheSameHeadIsKept) {
  take("distilbert_mlm");
  const StartWeights weights = start(Head::masked_lm);
  EXPECT_EQ(weights.fresh, Strings{});
  EXPECT_EQ(weights.unused, Strings{});
}

TEST_F(WarmStart, ADiscriminatorIsAnEncoder) {
  take("electra_discriminator");
  const StartWeights weights = start(Head::question_answering);
  EXPECT_EQ(weights.fresh, (Strings{"qa_outputs.weight", "qa_outputs.bias"}));
}

TEST_F(WarmStart, MissingTensorsAreNamedAsTheFileNamesThem) {
  take("distilbert_tokens");
  change_tensors([](auto& tensors) {
    tensors.erase("distilbert.transformer.layer.1.attention.out_lin.weight");
    tensors.erase("classifier.bias");
  });
  EXPECT_EQ(loading_error(),
            in_model(": the weights do not fit the model; missing: "
                     "distilbert.transformer.layer.1.attention.out_lin.weight, classifier.bias"));
}

TEST_F(WarmStart, AMissingTensorOfSeveralParametersIsNamedOnce) {
  take("modernbert_mlm");
  change_tensors([](auto& tensors) { tensors.erase("model.layers.1.attn.Wqkv.weight"); });
  EXPECT_EQ(loading_error(), in_model(": the weights do not fit the model; missing: "
                                      "model.layers.1.attn.Wqkv.weight"));
}

TEST_F(WarmStart, MissingTensorsOfOlderFilesHaveTheirOlderNames) {
  take("bert_mlm_gamma_beta");
  change_tensors([](auto& tensors) { tensors.erase("bert.embeddings.LayerNorm.beta"); });
  EXPECT_EQ(loading_error(), in_model(": the weights do not fit the model; missing: "
                                      "bert.embeddings.LayerNorm.beta"));
}

TEST_F(WarmStart, MissingTensorsOfABareEncoderHaveNoPrefix) {
  take("bert_model");
  change_tensors([](auto& tensors) { tensors.erase("embeddings.LayerNorm.bias"); });
  EXPECT_EQ(loading_error(), in_model(": the weights do not fit the model; missing: "
                                      "embeddings.LayerNorm.bias"));
}

TEST_F(WarmStart, UnexpectedTensorsAreNamedAsTheFileNamesThem) {
  take("bert_questions");
  change_tensors([](auto& tensors) {
    tensors.emplace("bert.encoder.layer.2.output.dense.bias",
                    tensors.at("bert.encoder.layer.1.output.dense.bias"));
  });
  EXPECT_EQ(loading_error(), in_model(": the weights do not fit the model; unexpected: "
                                      "bert.encoder.layer.2.output.dense.bias"));
}

/// A folder whose head nystrom lacks, and tensors of it.
struct LackedHead {
  const char *fixture, *key;
  nlohmann::json value;
};

TEST_F(WarmStart, AHeadThatIsDiscardedBlocksNothing) {
  const LackedHead cases[] = {
      {"bert_regression_relu", "problem_type", "single_label_classification"},
      {"bert_regression_relu", "architectures", {"BertForNextSentencePrediction"}},
      {"bert_regression_relu", "architectures", {"BertLMHeadModel"}},
      {"bert_regression_relu", "architectures", {"NewsRanker", "BertModel"}},
      {"bert_regression_relu", "id2label", {{"1", "down"}, {"2", "up"}}},
      {"bert_regression_relu", "id2label", {"down", "up"}},
      {"distilbert_tokens", "id2label", {{"0", "O"}, {"7", "PER"}}},
      {"electra_tokens", "problem_type", "ranking"},
  };
  for (const auto& [fixture, key, value] : cases) {
    SCOPED_TRACE(std::string(fixture) + ": " + key + " " + value.dump());
    fs::remove_all(model_);
    take(fixture);
    change_tensors([](auto& tensors) {
      tensors["classifier.weight"] = Tensor::zeros({5, 3}, DType::f32);
      tensors["scores.2.bias"] = Tensor::zeros({5}, DType::f32);
    });
    set_option(key, value);
    EXPECT_NE(message_of([&] { ModelFolder{model_}; }), "");
    const ModelFolder encoder(model_, HeadUse::discarded);
    EXPECT_EQ(encoder.config.head, Head::none);
    load_model(encoder, DType::f32, StoreMode::inference);
    const ModelFolder start(model_, HeadUse::replaceable);
    for (const Head head : {Head::masked_lm, Head::sequence_classification}) {
      ModelConfig run = start.config;
      run.head = head;
      check_start(run, start, /*fresh_head=*/true);
    }
  }
}

TEST_F(WarmStart, AHeadOfTheSameKindIsNotReplacedInSilence) {
  take("bert_regression_relu");
  set_option("problem_type", "ranking");
  const ModelFolder start(model_, HeadUse::replaceable);
  ModelConfig run = start.config;
  run.head = Head::sequence_classification;
  EXPECT_EQ(message_of([&] { check_start(run, start, false); }),
            in_model("/config.json: problem_type: expected \"single_label_classification\", "
                     "\"multi_label_classification\", \"regression\" or null, got \"ranking\""));
  run.head = Head::token_classification;
  EXPECT_EQ(message_of([&] { check_start(run, start, false); }), "");
}

TEST_F(WarmStart, AHeadOfOneLabelIsNoneOfSeveral) {
  take("bert_regression_relu");
  set_option("problem_type", "multi_label_classification");
  const ModelFolder start(model_, HeadUse::replaceable);
  ModelConfig run = start.config;
  EXPECT_EQ(message_of([&] { check_start(run, start, false); }), "");
  run.multi_label = false;
  EXPECT_EQ(message_of([&] { check_start(run, start, false); }),
            in_model(": its head gives a text any number of labels, and task.multi_label is false; "
                     "change it, or start a new head with model.fresh_head: true"));
  EXPECT_EQ(message_of([&] { check_start(run, start, true); }), "");
}

TEST_F(WarmStart, TensorsOfOtherHeadsAreNamedAndLeft) {
  take("bert_questions");
  change_tensors([](auto& tensors) {
    for (const char* name : {"classifier.weight", "optimizer.exp_avg", "embeddings.position_ids",
                             "bert.embeddings.position_ids"})
      tensors[name] = Tensor::zeros({1, 6}, DType::f32);
  });
  EXPECT_EQ(loading_error(), "");
  EXPECT_EQ(unread_tensors(ModelFolder(model_)),
            (Strings{"classifier.weight", "optimizer.exp_avg"}));
  EXPECT_EQ(start(Head::question_answering).unused,
            (Strings{"classifier.weight", "optimizer.exp_avg"}));
}

TEST_F(WarmStart, AnAdapterBesideTheWeightsIsRefused) {
  take("bert_questions");
  write_bytes(model_ / "adapter_config.json", "{}");
  EXPECT_EQ(message_of([&] {
              ModelFolder{model_};
            }).find(in_model(": adapter_config.json belongs to an adapter")),
            0U);
}

TEST_F(WarmStart, OtherShapesAreNamedAsTheFileNamesThem) {
  take("electra_tokens");
  set_option("embedding_size", 11);
  expect_says(loading_error(), "electra.embeddings_project.weight is [16, 12], expected [16, 11]");
}

TEST_F(WarmStart, AnotherVocabularyIsNamed) {
  take("bert_mlm");
  set_option("vocab_size", 31);
  EXPECT_EQ(loading_error(),
            in_model(": vocab_size is 31, but bert.embeddings.word_embeddings.weight has 30 rows; "
                     "correct vocab_size in config.json, or bring the weights that belong to it"));
}

TEST_F(WarmStart, OldAndNewNamesOfOneTensorAreRefused) {
  take("bert_mlm");
  change_tensors([](auto& tensors) {
    tensors.emplace("bert.embeddings.LayerNorm.gamma",
                    tensors.at("bert.embeddings.LayerNorm.weight"));
  });
  EXPECT_EQ(loading_error(),
            in_model(": bert.embeddings.LayerNorm.gamma and bert.embeddings.LayerNorm.weight are "
                     "two names of one tensor; remove one of them"));
}

TEST_F(WarmStart, OptionsThatDoNotFitTheFolderAreRefused) {
  take("bert_mlm");
  EXPECT_EQ(start_error([](ModelConfig& c) { c.vocab_size = 31; }),
            "model.vocab_size is 31, but " + model_.string() +
                " has 30 rows of word embeddings; leave the option out");
  EXPECT_EQ(start_error([](ModelConfig& c) {
              c.attention.kind = AttentionKind::nystrom;
              c.attention.num_landmarks = 4;
              c.attention.conv_kernel_size = 33;
            }),
            "model.attention.conv_kernel_size is 33, but " + model_.string() +
                " has no convolution; nystrom convert --conv 33 makes a folder with one");
}

TEST_F(WarmStart, AnotherLengthIsRefused) {
  take("roberta_mlm");
  EXPECT_EQ(start_error([](ModelConfig& c) { c.max_position_embeddings = 20; }),
            "model.max_position_embeddings is 20, but " + model_.string() +
                " has 9; nystrom extend makes a folder with a longer table");
}

}  // namespace
}  // namespace nystrom::testing
