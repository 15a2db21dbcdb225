// Names in the documents must exist: the tests in docs/guarantees.md, the messages in docs/faq.md,
// the options in the README.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "tests/support/places.h"
#include "tests/support/start_defaults.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"
#include "train/config/validation.h"

namespace nystrom::testing {
namespace {

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    found.insert((*at)[1].str() + "." + (*at)[2].str());
  return found;
}

TEST(Guarantees, NameTestsThatExist) {
  const std::filesystem::path root = source_folder();
  std::set<std::string> tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "tests")) {
    if (entry.path().extension() == ".cpp")
      tests.merge(matches(read_bytes(entry.path()), "TEST(?:_F|_P)?\\((\\w+), (\\w+)\\)"));
  }
  const auto named = matches(read_bytes(root / "docs" / "guarantees.md"), "`([A-Z]\\w+)\\.(\\w+)`");
  EXPECT_GE(named.size(), 30U);
  for (const std::string& name : named) EXPECT_TRUE(tests.contains(name)) << name;
}

/// The source of the program with adjacent string literals joined.
std::string source_text() {
  std::string text;
  for (const char* folder : {"core", "data", "nn", "train"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_folder() / folder)) {
      if (entry.path().extension() == ".cpp") text += read_bytes(entry.path());
    }
  }
  return std::regex_replace(text, std::regex("\"\\s*\n\\s*\""), "");
}

TEST(Faq, QuotesMessagesThatExist) {
  const std::string source = source_text();
  const std::string faq = read_bytes(source_folder() / "docs" / "faq.md");
  const std::regex heading("\n## `([^`]+)`");
  int count = 0;
  for (std::sregex_iterator at(faq.begin(), faq.end(), heading), end; at != end; ++at, ++count) {
    const std::string message = (*at)[1];
    std::string::size_type from = 0;
    while (from < message.size()) {  // the words between placeholders
      const auto to = std::min(message.find("…", from), message.size());
      const std::string words = message.substr(from, to - from);
      EXPECT_NE(source.find(words), std::string::npos) << message << "\nno source has: " << words;
      from = to + std::string_view("…").size();
    }
  }
  EXPECT_GE(count, 12);
}

TEST(Readme, ItsConfigurationIsOne) {
  const std::string readme = read_bytes(source_folder() / "README.md");
  const auto begin = readme.find("```yaml\n") + std::string_view("```yaml\n").size();
  const std::string yaml = readme.substr(begin, readme.find("```\n", begin) - begin);
  const RunConfig config = parse_config(yaml, "README.md", start_defaults);
  EXPECT_TRUE(validate_pretraining(config).empty());
  EXPECT_EQ(config.run_dir, "runs/mine");
  EXPECT_LE(std::count(yaml.begin(), yaml.end(), '\n'), 21) << "the README promises a short one";
}

}  // namespace
}  // namespace nystrom::testing
