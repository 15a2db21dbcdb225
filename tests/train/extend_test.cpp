// Longer position tables.
#include "train/extend.h"

#include <gtest/gtest.h>

#include "tests/train/run_program.h"
#include "tests/train/tiny_checkpoint.h"

namespace nystrom::testing {
namespace {

/// Two rows in front, and three positions with the values 10, 20 and 40.
Tensor table() { return Tensor::from(std::vector<float>{1, 2, 10, 20, 40}, {5, 1}); }

TEST(ExtendedPositions, TileRepeatsTheTrainedOnesFromTheFirst) {
  EXPECT_EQ(extended_positions(table(), 7, NewPositions::tile).to_doubles(), (std::vector<double>{1, 2, 10, 20, 40, 10, 20, 40, 10}));
}

TEST(ExtendedPositions, InterpolateStretchesThemFromEndToEnd) {
  EXPECT_EQ(extended_positions(table(), 5, NewPositions::interpolate).to_doubles(), (std::vector<double>{1, 2, 10, 15, 20, 30, 40}));
}

class ExtendTest : public ::testing::Test {
 protected:
  ExtendTest() : tiny_(folder_ / "base") {}
  void expect_error(const std::string& arguments, const std::string& message) {
    const Outcome outcome = run_program(folder_, "extend " + arguments + " --quiet");
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "nystrom: " + message + "\n");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "longer"));
  }
  TemporaryFolder folder_;
  TinyCheckpoint tiny_;
};

TEST_F(ExtendTest, WritesAFolderThatDiffersInThePositionsAlone) {
  const Outcome outcome = run_program(folder_, "extend base longer --length 48 --positions tile --quiet");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "longer: 48 positions instead of 24, 3 landmarks, " + std::to_string(tiny_.model->parameters().count() + 24 * 6) +
                             " parameters; train on with model.from before use\n");
  const ModelConfig config = read_model_config(folder_ / "longer", {});
  EXPECT_EQ(config.max_position_embeddings, 48);
  EXPECT_EQ(config.segment_means_seq_len, 48);
  const auto longer = load_model(folder_ / "longer", config, DType::f32, StoreMode::inference);
  for (const Parameter& parameter : tiny_.model->parameters().parameters()) {
    const std::vector<double> before = tiny_.model->parameters().master(parameter.name()).to_doubles();
    std::vector<double> after = longer->parameters().master(parameter.name()).to_doubles();
    after.resize(before.size());  // the first rows
    EXPECT_EQ(before, after) << parameter.name();
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "longer" / "README.md"));
  EXPECT_EQ(run_program(folder_, "predict longer 'the [MASK]' --quiet").code, 0);
}

TEST_F(ExtendTest, LandmarksMayGrow) {
  ASSERT_EQ(run_program(folder_, "extend base longer --length 48 --landmarks 12 --quiet").code, 0);
  EXPECT_EQ(read_model_config(folder_ / "longer", {}).attention.num_landmarks, 12);
}

TEST_F(ExtendTest, RefusesWhatIsNoExtension) {
  expect_error("base longer --length 12", "--length 12: base has 24 positions already; choose a larger length");
  expect_error("base longer --length 24", "--length 24: base has that many positions and 3 landmarks already; choose a larger length");
  expect_error("base longer --length 48 --landmarks 49",
               "--landmarks 49 exceeds --length 48; a sequence has no more landmarks than tokens");
  expect_error(
      "base longer --length 50",
      "base: cannot be exported: num_landmarks 3 does not divide the sequence length 50 (segment_means_seq_len), which transformers "
      "cuts into equal segments; --attention softmax exports the model with exact attention");
  expect_error("base longer", "--length is required; see nystrom extend --help");
  expect_error("base base --length 48", "base: is not empty; name a new folder");
}

}  // namespace
}  // namespace nystrom::testing
