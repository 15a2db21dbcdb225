// The recipes inside the program: each equals its file, can run, and matches its name.
#include "train/config/recipes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "nn/model.h"
#include "tests/support/places.h"
#include "tests/support/program_test.h"
#include "tests/support/start_defaults.h"
#include "train/config/config_io.h"
#include "train/config/validation.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

/// Reads a recipe without the model to start from, which does not exist here.
RunConfig config_of(std::string_view recipe) {
  const std::string_view text = find_recipe(recipe).text;
  std::vector<std::string> from_scratch;
  if (text.find("{from: ") != text.npos)
    from_scratch = {"model.from=null", "model.max_position_embeddings=4096"};
  return parse_config(text, std::string(recipe) + ".yaml", start_defaults, from_scratch);
}

class EveryRecipe : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryRecipe, IsItsFile) {
  EXPECT_EQ(find_recipe(GetParam()).text,
            read_bytes(source_folder() / "configs" / (GetParam() + ".yaml")));
}

TEST_P(EveryRecipe, BeginsWithWhatItIs) {
  EXPECT_TRUE(find_recipe(GetParam()).text.starts_with("# "));
}

TEST_P(EveryRecipe, CanBeRun) {
  RunConfig config = config_of(GetParam());
  EXPECT_EQ(config.run_dir, "runs/" + GetParam());
  EXPECT_TRUE(config.vocab_size_from_tokenizer);
  const bool from_model =
      find_recipe(GetParam()).text.find("{from: runs/") != std::string_view::npos;
  if (from_model) config.start.from = "runs/model";
  const bool from_scratch = config.task.kind == TaskKind::features || config.tokenizer.builtin;
  EXPECT_EQ(from_model, GetParam() == "warm-start" || (has_task(config) && !from_scratch));
  EXPECT_EQ(has_task(config) ? validate_finetuning(config) : validate_pretraining(config),
            Problems{});
}

TEST_P(EveryRecipe, SurvivesToYaml) {
  const std::string resolved = to_yaml(config_of(GetParam()));
  EXPECT_EQ(to_yaml(parse_config(resolved, "resolved.yaml", start_defaults)), resolved);
}

TEST_P(EveryRecipe, DeclaresItsModel) {
  EXPECT_GT(Model(config_of(GetParam()).model).parameters().count(), 0);
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.emplace_back(recipe.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryRecipe, ::testing::ValuesIn(recipe_names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Recipes, AreAllFilesOfConfigs) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(source_folder() / "configs"))
    files.insert(entry.path().stem().string());
  const std::vector<std::string> names = recipe_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), files)
      << "list new recipes in train/CMakeLists.txt";
}

/// BERT base has 109.5 M parameters with 512 positions, a pooler and 30522 words. The paper's model
/// differs in the last two and in its convolutions.
TEST(Recipes, BaseHasThePapersSize) {
  const ModelConfig model = config_of("base").model;
  EXPECT_EQ(model.vocab_size, 30000);
  EXPECT_EQ(Model(model).parameters().count(), 109119168);
}

TEST(Recipes, LongOnesTakeTheLengthOfTheirNameAndAsManyTokensAStep) {
  const RunConfig base = config_of("base");
  for (const std::int64_t length : {1024, 2048, 4096}) {
    SCOPED_TRACE(length);
    const RunConfig config = config_of("base-" + std::to_string(length));
    EXPECT_EQ(config.data.sequence_length, length);
    EXPECT_EQ(config.model.max_position_embeddings, length);
    EXPECT_EQ(length * config.training.batch_size,
              base.data.sequence_length * base.training.batch_size);
    EXPECT_EQ(length * config.training.micro_batch_size,
              base.data.sequence_length * base.training.micro_batch_size);
  }
}

TEST(Recipes, AreListedWithWhatTheyAre) {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(run_program(folder, "config --list"));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'),
            static_cast<std::ptrdiff_t>(recipes().size()));
  expect_says(
      outcome.out,
      "\nbase-4096      The paper's base model (width 768) for sequences of 4096 tokens.\n");
}

TEST(Recipes, ArePrintedByteForByte) {
  const TemporaryFolder folder;
  EXPECT_EQ(succeeded(run_program(folder, "config base")).out, find_recipe("base").text);
}

}  // namespace
}  // namespace nystrom::testing
