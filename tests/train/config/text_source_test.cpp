// data.train and data.validation as lists of files, or of sources with names and weights.
#include "train/config/text_source.h"

#include <gtest/gtest.h>

#include "tests/support/says.h"
#include "tests/support/start_defaults.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config_io.h"

namespace nystrom::testing {
namespace {

RunConfig read(const std::string& data) {
  return parse_config("data: {" + data + ", validation_fraction: 0.1}\n", "run.yaml",
                      start_defaults);
}

std::string error_of(const std::string& data) {
  return input_error([&] { read(data); });
}

TEST(TextSource, FilesAloneAreOneSourceWithoutAName) {
  const auto sources = sources_of(read("train: [a.txt, 'b*.txt']").data.train);
  ASSERT_EQ(sources.size(), 1);
  EXPECT_EQ(sources[0].files, (std::vector<std::string>{"a.txt", "b*.txt"}));
  EXPECT_EQ(sources[0].name, "");
}

TEST(TextSource, MixturesComeBackFromTheirYaml) {
  const RunConfig config = read(
      "train: [{files: [a.txt, b.txt], name: wiki, weight: 0.7}, {files: [c.txt], name: books, "
      "weight: 1}]");
  const std::string yaml = to_yaml(config);
  expect_says(yaml,
              "train: [{files: [a.txt, b.txt], name: wiki, weight: 0.7}, {files: [c.txt], name: "
              "books, weight: 1}]");
  EXPECT_EQ(to_yaml(parse_resolved_config(yaml, "config.yaml")), yaml);
  EXPECT_EQ(patterns_of(config.data.train), (std::vector<std::string>{"a.txt", "b.txt", "c.txt"}));
}

TEST(TextSource, ListsOfFilesKeepTheirYaml) {
  expect_says(to_yaml(read("train: [a.txt, b.txt]")), "train: [a.txt, b.txt]\n");
}

TEST(TextSource, RefusesWhatIsAmbiguous) {
  EXPECT_EQ(error_of("train: [a.txt, {files: [b.txt], name: b}]"),
            "run.yaml:1:8: data.train[0]: has no name; give each source files and a name, or list "
            "files alone");
  EXPECT_EQ(error_of("train: [{files: [b.txt], weight: 2}]"),
            "run.yaml:1:8: data.train[0]: has no name; give each source files and a name, or list "
            "files alone");
  EXPECT_EQ(error_of("train: [{name: b}]"),
            "run.yaml:1:8: data.train[0]: files is empty; name the source's text files, such as "
            "[corpus/*.txt]");
  EXPECT_EQ(error_of("train: [{files: [a], name: 'a b'}]"),
            "run.yaml:1:8: data.train[0]: name: got 'a b', expected letters, digits, '-' and '_'");
  EXPECT_EQ(error_of("train: [{files: [a], name: x}, {files: [b], name: x}]"),
            "run.yaml:1:8: data.train[1]: name x is that of an earlier source; choose another");
}

TEST(TextSource, RefusesWeightsThatMixNothing) {
  EXPECT_EQ(error_of("train: [{files: [a], name: x, weight: 1}, {files: [b], name: y}]"),
            "run.yaml:1:8: data.train: some sources have a weight and some have none; give one to "
            "each, or to none");
  EXPECT_EQ(error_of("train: [{files: [a], name: x, weight: 0}]"),
            "run.yaml:1:46: data.train[0].weight: got '0', expected a number greater than 0, or "
            "null");
  EXPECT_EQ(error_of("train: [{files: [a], name: x, weight: 1e-7}, {files: [b], name: y, weight: "
                     "1}]"),
            "run.yaml:1:8: data.train: weight 1e-07 of x is less than 1e-06 of all weights, "
            "1.0000001; raise it, or leave the source out");
  EXPECT_EQ(input_error([] {
              parse_config("data: {train: [a], validation: [{files: [b], name: y, weight: 1}]}\n",
                           "run.yaml", start_defaults);
            }),
            "run.yaml:1:20: data.validation: a weight is for data.train alone; every validation "
            "text is evaluated once");
}

}  // namespace
}  // namespace nystrom::testing
