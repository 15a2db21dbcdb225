// Exports of models of BERT's family as what they are.
#include "tests/train/export/export_fixture.h"
#include "train/state/model_weights.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

class ArchitectureExport : public ::testing::TestWithParam<std::string> {
 protected:
  void export_with(const ExportOptions& options) {
    Log quiet(true);
    export_model(open_model(source_, {}, quiet), target_, options, quiet);
  }

  TemporaryFolder folder_;
  fs::path source_ = fixture_folder() / "architectures" / GetParam(), target_ = folder_ / "target";
};
INSTANTIATE_TEST_SUITE_P(Folders, ArchitectureExport,
                         ::testing::ValuesIn(fixture_names("architectures")),
                         [](const auto& of) { return of.param; });

/// A tensor's name without what older files and bare encoders write in another way.
std::string plain_name(std::string name) {
  for (const char* base : {"bert.", "roberta.", "distilbert.", "electra."})
    if (name.starts_with(base)) name.erase(0, std::string(base).size());
  for (const auto& [older, newer] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")})
    if (name.ends_with(older)) name.replace(name.rfind('.'), name.npos, newer);
  return name;
}

TEST_P(ArchitectureExport, HasTheTypeAndTheTensorsOfItsSource) {
  export_with({.verify = true});
  EXPECT_EQ(ModelFolder(target_).architecture, ModelFolder(source_).architecture);
  EXPECT_FALSE(fs::exists(target_ / "modeling_nystrom.py"));
  const auto before = ModelWeights::open(source_), after = ModelWeights::open(target_);
  std::map<std::string, std::string> stored_as;
  for (const std::string& name : before.names()) stored_as[plain_name(name)] = name;
  for (const std::string& name : after.names()) {
    ASSERT_TRUE(stored_as.contains(plain_name(name))) << name;
    EXPECT_EQ(after.read(name).to_doubles(),
              before.read(stored_as.at(plain_name(name))).to_doubles())
        << name;
  }
}

TEST_P(ArchitectureExport, KeepsTheConfiguration) {
  export_with({});
  const ModelConfig before = ModelFolder(source_).config, after = ModelFolder(target_).config;
  EXPECT_EQ(hf_config_text(after), hf_config_text(before));
}

class FormatTest : public ExportTest {
 protected:
  std::string obstacle(ModelConfig config, const char* model_type) {
    return architecture_obstacle(config, *find_architecture(model_type));
  }
  ModelConfig bert() const {
    return ModelFolder(fixture_folder() / "architectures" / "bert_mlm").config;
  }
};

TEST_F(FormatTest, TheFirstOptionThatDoesNotFitIsNamed) {
  ModelConfig config = bert();
  EXPECT_EQ(obstacle(config, "bert"), "");
  config.norm = Norm::pre;
  EXPECT_EQ(obstacle(config, "bert"),
            "norm is \"pre\", and a folder of model_type bert has \"post\"");
  config = bert();
  config.layer_norm_eps = 1e-5;
  EXPECT_EQ(obstacle(config, "bert"), "");
  EXPECT_NE(obstacle(config, "distilbert"), "");
  config = ModelFolder(fixture_folder() / "architectures" / "distilbert_mlm").config;
  EXPECT_EQ(obstacle(config, "bert"),
            "type_vocab_size is 0, and a model of model_type bert always adds token types");
  config.attention.kind = AttentionKind::nystrom;
  EXPECT_EQ(obstacle(config, "bert"),
            "its attention is nystrom, and that of model_type bert is exact");
  config = bert();
  config.attention.conv_kernel_size = 3;
  EXPECT_EQ(obstacle(config, "bert"),
            "its attention has a convolution, and that of model_type bert has none");
  config = bert();
  config.pad_token_id = config.max_position_embeddings;
  EXPECT_EQ(obstacle(config, "bert"), "");
  EXPECT_EQ(obstacle(config, "roberta"),
            "the exported config.json: max_position_embeddings: expected at least 11, because "
            "positions begin behind row pad_token_id 9; got 9");
}

TEST_F(FormatTest, OptionsWithoutAPartInTheResultFitAnyFormat) {
  ModelConfig config = ModelFolder(fixture_folder() / "architectures" / "modernbert_mlm").config;
  config.position_offset = 2;  // of a table, in place of which there is a rotation
  config.hidden_dropout_prob = 0.1;
  EXPECT_EQ(obstacle(config, "modernbert"), "");
  config.positions = Positions::absolute;
  EXPECT_EQ(obstacle(config, "modernbert"),
            "positions is \"absolute\", and a folder of model_type modernbert has \"rope\"");
}

TEST_F(FormatTest, PoolingOfVectorsNeedsTheFilesThatStateIt) {
  Log quiet(true);
  ModelFolder folder = open_model(fixture_folder() / "architectures" / "bert_model", {}, quiet);
  folder.config.embedding.pooling = SentencePooling::cls;
  export_model(folder, target(), {}, quiet);
  EXPECT_EQ(ModelFolder(target()).architecture, nullptr);
  EXPECT_EQ(ModelFolder(target()).config.embedding.pooling, SentencePooling::cls);
}

}  // namespace
}  // namespace nystrom::testing
