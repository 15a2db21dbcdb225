// The options as documentation: complete, correct, and equal to the committed files.
#include "train/config/config_docs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

const std::string docs = testing::source_folder().string() + "/docs/";

TEST(ConfigDocs, PageIsAsCommitted) {
  EXPECT_TRUE(read_bytes(docs + "config.md") == config_markdown())
      << "docs/config.md is stale; run ./dev docs";
}

TEST(ConfigDocs, SchemaIsAsCommitted) {
  EXPECT_TRUE(read_bytes(docs + "config.schema.json") == config_schema())
      << "docs/config.schema.json is stale; run ./dev docs";
}

/// The name of an option, and the path of its section.
struct KnownOption {
  std::string section, name;
};

/// All options and sections, listed as by the reader for its messages.
std::vector<KnownOption> known_options() {
  std::vector<KnownOption> options;
  RunConfig config;
  visit_options(config, [&](const std::string& section, const char* name, const auto&...) {
    options.push_back({section, name});
  });
  return options;
}

/// The JSON pointer to the option in the schema.
Json::json_pointer place_of(const KnownOption& option) {
  Json::json_pointer place;
  for (std::size_t begin = 0; begin < option.section.size();) {
    const std::size_t end = std::min(option.section.find('.', begin), option.section.size());
    place = place / "properties" / option.section.substr(begin, end - begin);
    begin = end + 1;
  }
  return place / "properties" / option.name;
}

TEST(ConfigDocs, SchemaHasEveryOption) {
  const Json schema = Json::parse(config_schema());
  for (const KnownOption& option : known_options())
    EXPECT_TRUE(schema.contains(place_of(option))) << option.section << "." << option.name;
}

TEST(ConfigDocs, EveryOptionIsExplained) {
  for (const KnownOption& option : known_options()) {
    const std::string path =
        option.section.empty() ? option.name : option.section + "." + option.name;
    EXPECT_TRUE(explain_option(path).starts_with(path)) << path;
  }
}

Json schema_of(const std::string& section, const std::string& name) {
  return Json::parse(config_schema()).at(place_of({section, name}));
}

TEST(ConfigSchema, RefusesUnknownKeys) {
  EXPECT_EQ(Json::parse(config_schema()).at("additionalProperties"), false);
  EXPECT_EQ(schema_of("model", "attention").at("additionalProperties"), false);
}

TEST(ConfigSchema, StatesTypeBoundDefaultAndMeaning) {
  EXPECT_EQ(schema_of("training", "batch_size"),
            Json::parse(R"({"type": "integer", "minimum": 1, "default": 256,
    "description": "sequences of one optimizer step, over all devices"})"));
}

TEST(ConfigSchema, StatesOpenBounds) {
  EXPECT_EQ(schema_of("optimizer", "learning_rate").at("exclusiveMinimum"), 0);
  EXPECT_EQ(schema_of("model", "hidden_dropout_prob").at("exclusiveMaximum"), 1);
}

TEST(ConfigSchema, StatesWords) {
  EXPECT_EQ(schema_of("schedule", "decay").at("enum"),
            Json({"linear", "cosine", "constant", "wsd"}));
}

TEST(ConfigSchema, StatesListsByTheirItems) {
  const Json betas = schema_of("optimizer", "betas");
  EXPECT_EQ(betas.at("type"), "array");
  EXPECT_EQ(betas.at("items").at("type"), "number");
  EXPECT_EQ(betas.at("default"), Json({0.9, 0.999}));
}

TEST(ConfigSchema, AllowsNullWhereAnOptionIsOptional) {
  const Json taps = schema_of("model.attention", "conv_kernel_size");
  EXPECT_EQ(taps.at("type"), Json({"integer", "null"}));
  EXPECT_EQ(taps.at("not"), Json::parse(R"({"type": "integer", "multipleOf": 2})"));
}

TEST(ConfigSchema, LeavesTheVocabularyToTheTokenizer) {
  EXPECT_FALSE(schema_of("model", "vocab_size").contains("default"));
}

TEST(Explain, TellsMeaningTypeRangeAndDefault) {
  EXPECT_EQ(explain_option("training.batch_size"),
            "training.batch_size\n  meaning  sequences of one optimizer step, over all devices\n  "
            "type     whole number\n"
            "  range    at least 1\n  default  256\n");
}

TEST(Explain, TellsWords) {
  EXPECT_EQ(explain_option("model.norm"),
            "model.norm\n  meaning  post: as BERT; pre: the sequence block\n  type     word\n  "
            "words    post, pre\n  default  post\n");
}

TEST(Explain, TellsTheOptionsOfASection) {
  EXPECT_EQ(explain_option("schedule"), "schedule: the learning rate over the steps\n\n" +
                                            explain_option("schedule.warmup_steps") + "\n" +
                                            explain_option("schedule.warmup_share") + "\n" +
                                            explain_option("schedule.decay") + "\n" +
                                            explain_option("schedule.decay_share"));
}

TEST(Explain, FindsTheSectionOfABareName) {
  EXPECT_EQ(input_error([] { explain_option("batch_size"); }),
            "unknown option batch_size; did you mean 'training.batch_size'?; nystrom config "
            "--markdown lists all");
}

TEST(Explain, KnowsOnlyOptions) {
  EXPECT_EQ(input_error([] { explain_option("model.segment_means_seq_len"); }),
            "unknown option model.segment_means_seq_len; nystrom config --markdown lists all");
}

}  // namespace
}  // namespace nystrom
