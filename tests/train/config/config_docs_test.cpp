// The options as documentation: complete, correct, and equal to the committed files.
#include "train/config/config_docs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/places.h"
#include "tests/support/start_defaults.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config.h"
#include "train/config/config_io.h"

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
  std::string path() const { return path_in(section, name); }
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
  for (const KnownOption& option : known_options())
    EXPECT_TRUE(explain_option(option.path()).starts_with(option.path())) << option.path();
}

/// What explain_option says of an option behind `label`; empty: nothing.
std::string line_of(const std::string& explanation, const std::string& label) {
  std::smatch found;
  std::regex_search(explanation, found, std::regex("\\n  " + label + " +(.*)"));
  return found.empty() ? "" : found[1].str();
}

/// Values that an option does not take by its explanation, and what is expected in their place.
std::pair<std::vector<std::string>, std::string> outside(const std::string& explanation) {
  const std::string type = line_of(explanation, "type"), words = line_of(explanation, "words"),
                    range = line_of(explanation, "range");
  if (!words.empty()) return {{"zzz"}, std::regex_replace(words, std::regex(", "), " or ")};
  if (type.starts_with("true or false")) return {{"7", "yes"}, "true or false"};
  if (type.empty()) return {{"7"}, "a mapping of options"};
  if (range.empty()) return {};
  const bool whole = type.find("whole") != std::string::npos, odd = range.starts_with("odd, ");
  std::vector<std::string> values{"many", whole ? "1.5" : "nan"};
  const std::regex bound("(at least|greater than|between|at most|below|and) (-?[0-9.]+)");
  for (std::sregex_iterator each(range.begin(), range.end(), bound), end; each != end; ++each) {
    const std::string kind = (*each)[1];
    const bool open = kind == "greater than" || kind == "below",
               lower = kind == "at least" || kind == "between";
    values.push_back(fmt::format("{:.12g}", std::stod((*each)[2]) + (open ? 0 : lower ? -1 : 1)));
  }
  if (odd) values.push_back("4");
  return {values,
          fmt::format("{} {}{}",
                      odd     ? "an odd whole number"
                      : whole ? "a whole number"
                              : "a number",
                      range.substr(odd ? 5 : 0), type.ends_with("or null") ? ", or null" : "")};
}

TEST(ConfigDocs, WhatIsOutsideOfItsRangeIsRefused) {
  int refused = 0;
  for (const KnownOption& option : known_options()) {
    const std::string path = option.path();
    const std::string all = explain_option(path),
                      explanation = all.substr(0, all.find("\n\n"));  // not a section's options
    const std::string type = line_of(explanation, "type");
    const bool list = type.starts_with("list"), mapping = type.starts_with("mapping");
    const auto [values, expected] = outside(explanation);
    for (const std::string& value : values) {
      const std::string given = list ? "[" + value + "]" : mapping ? "{0: " + value + "}" : value;
      const std::vector<std::string> set{path + "=" + given};
      EXPECT_EQ(input_error([&] { parse_config("seed: 1", "run.yaml", start_defaults, set); }),
                fmt::format("--set {}: {}{}: got '{}', expected {}", set[0], path,
                            list      ? "[0]"
                            : mapping ? ".0"
                                      : "",
                            value, expected));
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
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

TEST(ConfigSchema, AllowsOneTextInThePlaceOfAList) {
  for (const char* section : {"data", "task"}) {
    const Json either = schema_of(section, "train").at("anyOf");
    EXPECT_EQ(either.at(0), Json({{"type", {"string", "number", "boolean"}}}));
    EXPECT_EQ(either.at(1).at("type"), "array");
  }
}

/// As the columns of a file without a header, {text: 2, label: 1}, and labels [0, 1].
TEST(ConfigSchema, AllowsNumbersForNames) {
  const Json types = {"string", "number", "boolean"};
  EXPECT_EQ(schema_of("task", "labels").at("anyOf").at(1).at("items").at("type"), types);
  EXPECT_EQ(schema_of("task.columns", "text").at("type"),
            Json({"string", "number", "boolean", "null"}));
  EXPECT_EQ(schema_of("model", "norm").at("type"), "string");
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
