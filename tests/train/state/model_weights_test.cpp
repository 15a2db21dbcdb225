#include "train/state/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/named.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

NamedTensor tensor(const std::string& name, float value) {
  return {name, Tensor::from<float>({value}, {1})};
}

/// Writes two shards and an index with the given weight_map.
void write_shards(const TemporaryFolder& folder, const std::string& weight_map) {
  write_safetensors(folder / "one.safetensors", {tensor("a", 1), tensor("b", 2)});
  write_safetensors(folder / "two.safetensors", {tensor("c", 3)});
  write_bytes(folder / "model.safetensors.index.json",
              "{\"metadata\": {\"total_size\": 12}, \"weight_map\": " + weight_map + "}");
}

constexpr const char* right_map =
    R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})";

std::string error_of(const TemporaryFolder& folder) {
  const std::string message = input_error([&] { ModelWeights::open(folder.path()); });
  const std::string prefix = folder.path().string();
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

TEST(ModelWeights, ReadsOneFile) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", {tensor("b", 2), tensor("a", 1)});
  const auto weights = ModelWeights::open(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(weights.read("b").item(), 2);
  EXPECT_EQ(weights.stored("a").shape, Shape{1});
  EXPECT_FALSE(weights.contains("c"));
}

TEST(ModelWeights, ReadsShards) {
  const TemporaryFolder folder;
  write_shards(folder, right_map);
  const auto weights = ModelWeights::open(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(weights.read("c").item(), 3);
  EXPECT_EQ(weights.read("b").item(), 2);
}

TEST(ModelWeights, NonFiniteWeightsAreRefused) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors",
                    {tensor("a", std::numeric_limits<float>::infinity())});
  const auto weights = ModelWeights::open(folder.path());
  EXPECT_EQ(input_error([&] { weights.read("a"); }),
            (folder / "model.safetensors").string() + ": tensor a is not finite at element 0");
}

TEST(ModelWeights, AnAbsentTensorIsNamed) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", {});
  EXPECT_EQ(input_error([&] { ModelWeights::open(folder.path()).read("a"); }),
            folder.path().string() + ": has no tensor a");
}

TEST(ModelWeights, AnEmptyFolderSaysWhatWasLookedFor) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder),
            ": has none of model.safetensors, model.safetensors.index.json, pytorch_model.bin and "
            "pytorch_model.bin.index.json");
}

TEST(ModelWeights, AShardMayBeALinkWithinTheFolder) {
  const TemporaryFolder folder;
  write_shards(folder, right_map);
  std::filesystem::rename(folder / "two.safetensors", folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere", folder / "two.safetensors");
  EXPECT_EQ(error_of(folder), "no error");
}

TEST(ModelWeights, AShardBehindALinkOutOfTheFolderIsRefused) {
  const TemporaryFolder folder, other;
  write_shards(folder, right_map);
  std::filesystem::rename(folder / "two.safetensors", other / "stray");
  std::filesystem::create_symlink(other / "stray", folder / "two.safetensors");
  EXPECT_THAT(error_of(folder), ::testing::StartsWith("/two.safetensors: is a link to "));
}

TEST(ModelWeights, LinksOfTheHubsCacheAreFollowed) {
  const TemporaryFolder cache, shards;
  write_shards(shards, right_map);
  const std::filesystem::path snapshot = cache / "snapshots" / "0a1b";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(cache / "blobs");
  for (const auto& file : std::filesystem::directory_iterator(shards.path())) {
    const auto name = file.path().filename();
    std::filesystem::copy_file(file.path(), cache / "blobs" / ("blob-" + name.string()));
    std::filesystem::create_symlink(
        std::filesystem::path("../../blobs") / ("blob-" + name.string()), snapshot / name);
  }
  EXPECT_NO_THROW(ModelWeights::open(snapshot));
}

struct IndexCase : testing::Named {
  const char* weight_map;
  const char* message;  // after the folder's name
};

const IndexCase index_cases[] = {
    {"Array", "[]",
     "/model.safetensors.index.json: weight_map must be an object that names tensors, got array"},
    {"Empty", "{}",
     "/model.safetensors.index.json: weight_map must be an object that names tensors, got none"},
    {"ShardIsANumber", R"({"a": 1})",
     "/model.safetensors.index.json: the shard of a must be a string, got number"},
    {"Parent", R"({"a": "../one.safetensors"})",
     "/model.safetensors.index.json: tensor a: \"../one.safetensors\" is not the name of a "
     ".safetensors file in the same folder"},
    {"Absolute", R"({"a": "/one.safetensors"})",
     "/model.safetensors.index.json: tensor a: \"/one.safetensors\" is not the name of a "
     ".safetensors file in the same folder"},
    {"Pickle", R"({"a": "one.bin"})",
     "/model.safetensors.index.json: tensor a: \"one.bin\" is not the name of a .safetensors file "
     "in the same folder"},
    {"SuffixOnly", R"({"a": ".safetensors"})",
     "/model.safetensors.index.json: tensor a: \".safetensors\" is not the name of a .safetensors "
     "file in the same folder"},
    {"NulInName", R"({"a": "one\u0000.safetensors"})",
     "/model.safetensors.index.json: tensor a: \"one\\x00.safetensors\" is not the name of a "
     ".safetensors file in the same folder"},
    {"BadTensorName", R"({"a b": "one.safetensors"})",
     "/model.safetensors.index.json: tensor name \"a b\" is not 1 to 256 of A-Z a-z 0-9 . _ -"},
    {"Duplicate", R"({"a": "one.safetensors", "a": "two.safetensors"})",
     "/model.safetensors.index.json:1:75: key \"a\" appears twice"},
    {"AbsentShard", R"({"a": "three.safetensors"})",
     "/three.safetensors: cannot open: No such file or directory"},
    {"WrongShard", R"({"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"})",
     "/model.safetensors.index.json: places tensor b in two.safetensors, which does not have it"},
    {"UnknownTensor", R"({"a": "one.safetensors", "x": "one.safetensors"})",
     "/model.safetensors.index.json: places tensor x in one.safetensors, which does not have it"},
    {"Unlisted", R"({"a": "one.safetensors", "c": "two.safetensors"})",
     "/model.safetensors.index.json: does not list tensor b of one.safetensors"},
};

class HostileIndex : public ::testing::TestWithParam<IndexCase> {};

TEST_P(HostileIndex, IsRefusedWithTheReason) {
  const TemporaryFolder folder;
  write_shards(folder, GetParam().weight_map);
  EXPECT_EQ(error_of(folder), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, HostileIndex, ::testing::ValuesIn(index_cases), testing::case_name);

TEST(HostileIndex, WithoutAWeightMapIsRefused) {
  EXPECT_EQ(input_error([] { parse_weight_map("{}", "index"); }), "index: has no weight_map");
  EXPECT_EQ(input_error([] { parse_weight_map("[]", "index"); }),
            "index: expected an object, got array");
}

TEST(HostileIndex, ATensorInTwoShardsIsRefused) {
  const TemporaryFolder folder;
  write_shards(folder, right_map);
  write_safetensors(folder / "two.safetensors", {tensor("b", 9), tensor("c", 3)});
  EXPECT_EQ(error_of(folder),
            "/model.safetensors.index.json: does not list tensor b of two.safetensors");
}

}  // namespace
}  // namespace nystrom
