// Extended position tables.
#include "train/export/extend.h"

#include <gtest/gtest.h>

#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/state/run_state.h"

namespace nystrom::testing {
namespace {

/// Two leading rows, and three positions with the values 10, 20 and 40.
Tensor table() { return Tensor::from(std::vector<float>{1, 2, 10, 20, 40}, {5, 1}); }

TEST(ExtendedPositions, TileRepeatsTheTrainedOnesFromTheFirst) {
  EXPECT_EQ(extended_positions(table(), 2, 7, NewPositions::tile).to_doubles(),
            (std::vector<double>{1, 2, 10, 20, 40, 10, 20, 40, 10}));
}

TEST(ExtendedPositions, InterpolateStretchesThemFromEndToEnd) {
  EXPECT_EQ(extended_positions(table(), 2, 5, NewPositions::interpolate).to_doubles(),
            (std::vector<double>{1, 2, 10, 15, 20, 30, 40}));
}

class ExtendTest : public ProgramTest {
 protected:
  ExtendTest() : tiny_(folder_ / "base") {}
  void expect_error(const std::string& arguments, const std::string& message,
                    Caller caller = Caller::here()) {
    expect_refused("extend " + arguments + " --quiet", message, caller);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "longer"));
  }
  /// Compares all weights of `model`, and the first rows of the position table.
  void expect_same_weights(const Model& model, const std::string& folder) {
    const auto longer = load_model(ModelFolder(folder_ / folder), DType::f32, StoreMode::inference);
    for (const Parameter& parameter : model.parameters().parameters()) {
      const std::vector<double> before = model.parameters().master(parameter.name()).to_doubles();
      std::vector<double> after = longer->parameters().master(parameter.name()).to_doubles();
      after.resize(before.size());
      EXPECT_EQ(before, after) << parameter.name();
    }
  }
  TinyCheckpoint tiny_;
};

TEST_F(ExtendTest, WritesAFolderThatDiffersInThePositionsAlone) {
  EXPECT_EQ(run("extend base longer --length 48 --positions tile --quiet").out,
            "longer: 48 positions instead of 24, 3 landmarks, " +
                std::to_string(tiny_.model->parameters().count() + 24 * 6) +
                " parameters; train on with model.from before use\n");
  const ModelConfig config = ModelFolder(folder_ / "longer").config;
  EXPECT_EQ(config.max_position_embeddings, 48);
  EXPECT_EQ(config.segment_means_seq_len, 48);
  expect_same_weights(*tiny_.model, "longer");
  run("predict longer 'the [MASK]' --quiet");
}

TEST_F(ExtendTest, LandmarksMayGrow) {
  run("extend base longer --length 48 --landmarks 12 --quiet");
  EXPECT_EQ(ModelFolder(folder_ / "longer").config.attention.num_landmarks, 12);
}

/// Models that transformers' own class cannot run are extended too.
TEST_F(ExtendTest, WritesModelsOfEveryOption) {
  struct Case {
    const char* name;
    void (*change)(ModelConfig&);
    std::string length;
  };
  const Case cases[] = {
      {"indivisible", [](ModelConfig&) {}, "50"},
      {"performer", [](ModelConfig& c) { c.attention.kind = AttentionKind::performer; }, "48"},
      {"pre", [](ModelConfig& c) { c.norm = Norm::pre; }, "48"},
      {"mean",
       [](ModelConfig& c) { c.head = Head::sequence_classification, c.pooling = Pooling::mean; },
       "48"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    ModelConfig config = tiny_masked_lm();
    test.change(config);
    const TinyCheckpoint from(folder_ / test.name, config);
    const std::string longer = std::string("longer-") + test.name;
    EXPECT_EQ(
        run(std::string("extend ") + test.name + " " + longer + " --length " + test.length).err,
        "");
    const ModelConfig read = ModelFolder(folder_ / longer).config;
    EXPECT_EQ(read.attention.kind, config.attention.kind);
    EXPECT_EQ(std::to_string(read.max_position_embeddings), test.length);
    expect_same_weights(*from.model, longer);
  }
}

/// A model that is exact in transformers, and an export of exact attention, stay exact at the new
/// length.
TEST_F(ExtendTest, ExactAttentionInTransformersStaysExact) {
  ModelConfig config = tiny_masked_lm();
  config.attention.kind = AttentionKind::softmax;
  config.segment_means_seq_len = config.attention.num_landmarks;
  const TinyCheckpoint from(folder_ / "softmax", config);
  EXPECT_EQ(run("extend softmax longer --length 50").err, "");
  const ModelFolder longer(folder_ / "longer");
  EXPECT_EQ(longer.config.segment_means_seq_len, longer.config.attention.num_landmarks);
  EXPECT_EQ(trained_length(longer), 50);
}

/// A run from nothing has rows beyond data.sequence_length that it never trained.
TEST_F(ExtendTest, RowsThatWereNeverTrainedAreReplaced) {
  RunConfig of_run;
  of_run.model = tiny_.model->config();
  of_run.data.sequence_length = 24;
  of_run.data.length_schedule = {{"0", 12}, {"5", 24}};  // the longer ones are to come
  RunState state;
  state.step = 5;
  write_bytes(folder_ / "base" / "state.json", state.to_json());
  write_bytes(folder_ / "base" / "config.yaml", to_yaml(of_run));
  expect_error("base longer --length 9",
               "--length 9: base has 12 trained positions already; choose a larger length");
  expect_says(run("extend base longer --length 20 --quiet").out,
              "longer: 20 positions instead of 24 (12 of them trained), ");
  const auto table_of = [&](const std::string& folder) {
    const auto model = load_model(ModelFolder(folder_ / folder), DType::f32, StoreMode::inference);
    return model->parameters()
        .master("nystromformer.embeddings.position_embeddings.weight")
        .to_doubles();
  };
  const Tensor before = Tensor::from(table_of("base"), {24 + of_run.model.position_offset, 6});
  EXPECT_EQ(table_of("longer"),
            extended_positions(before.slice(0, 0, 12 + of_run.model.position_offset),
                               of_run.model.position_offset, 20, NewPositions::tile)
                .to_doubles());
  std::filesystem::remove_all(folder_ / "longer");
  state.skipped_batches = {{3, 2}};  // the fifth step had batch 6
  write_bytes(folder_ / "base" / "state.json", state.to_json());
  expect_says(run("extend base longer --length 48 --quiet").out,
              "longer: 48 positions instead of 24, ");
  std::filesystem::remove_all(folder_ / "longer");
  state.skipped_batches.clear();
  state.step = 0;
  write_bytes(folder_ / "base" / "state.json", state.to_json());
  expect_says(run("extend base longer --length 48 --quiet").out,
              "longer: 48 positions instead of 24, ");
  std::filesystem::remove_all(folder_ / "longer");
  of_run.start.from = "older";
  write_bytes(folder_ / "base" / "config.yaml", to_yaml(of_run));
  expect_error("base longer --length 20",
               "--length 20: base has 24 positions already; choose a larger length");
}

TEST_F(ExtendTest, KeepsTheHeadOfSentenceOrder) {
  ModelConfig config = tiny_masked_lm();
  config.sentence_order = true;
  const TinyCheckpoint from(folder_ / "ordered", config);
  run("extend ordered longer --length 48 --quiet");
  EXPECT_TRUE(ModelFolder(folder_ / "longer").config.sentence_order);
  expect_same_weights(*from.model, "longer");
}

TEST_F(ExtendTest, RefusesLinformer) {
  ModelConfig config = tiny_masked_lm();
  config.attention.kind = AttentionKind::linformer;
  config.attention.projected_length = 8;
  const TinyCheckpoint from(folder_ / "linformer", config);
  expect_error("linformer longer --length 48",
               "linformer: linformer's projections have weights for each of its 24 positions, and "
               "none for more; pretrain a model with "
               "max_position_embeddings 48 anew, or choose another attention.kind");
}

TEST_F(ExtendTest, RefusesToStretchPositionsWithoutATable) {
  ModelConfig config = tiny_masked_lm();
  config.hidden_size = 8;
  config.positions = Positions::rope;
  const TinyCheckpoint from(folder_ / "rotated", config);
  expect_error("rotated longer --length 48 --positions interpolate",
               "--positions interpolate: rotated has no position table to stretch (positions: "
               "rope); leave it out");
}

TEST_F(ExtendTest, RefusesWhatIsNoExtension) {
  expect_error("base longer --length 12",
               "--length 12: base has 24 positions already; choose a larger length");
  expect_error(
      "base longer --length 24",
      "--length 24: base has that many positions and 3 landmarks already; choose a larger length");
  expect_error("base longer --length 24 --set model.attention.kind=softmax",
               "--length 24: base has that many positions already; choose a larger length");
  expect_error("base longer --length 48 --landmarks 49",
               "--landmarks 49 exceeds --length 48; a sequence has no more landmarks than tokens");
  expect_error("base longer --length 50 --set model.attention.semantics=transformers",
               "base with 50 positions: attention.num_landmarks 3 does not divide "
               "segment_means_seq_len 50, as attention.semantics transformers needs (Hugging Face "
               "refuses it too); change it or set attention.semantics to nystrom");
  expect_error("base longer", "--length is required; see nystrom extend --help");
  expect_error("base base --length 48", "base: is not empty; name a new folder");
}

}  // namespace
}  // namespace nystrom::testing
