// The resolution of a run: what its file names is opened once, and all errors come from one place.
#include "train/loop/run_spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/errors.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

class RunSpecTest : public ::testing::Test {
 protected:
  ConfigText yaml(const std::string& more) const {
    return {"run.yaml", "run_dir: " + (folder_ / "run").string() + "\n" + more};
  }

  TemporaryFolder folder_;
};

const std::string two_faults =
    "data: {train: [absent.txt], validation: [missing.txt]}\ntokenizer: {path: nowhere}\n";

TEST_F(RunSpecTest, ARunThrowsTheFirstError) {
  EXPECT_TRUE(message_of([&] {
                resolve(yaml(two_faults), {}, RunKind::pretraining);
              }).starts_with("data.train: 'absent.txt' matches no file;"));
  EXPECT_TRUE(message_of([&] {
                read_run(yaml("model: {from: nowhere}\n"));
              }).starts_with("model.from: nowhere: no such folder;"));
  const std::string inputs = "task: {kind: classification, train: [run_spec_test.tsv]}\n";
  EXPECT_TRUE(message_of([&] {
                resolve(yaml("tokenizer: {path: nowhere}\n" + inputs), {}, RunKind::finetuning);
              }).starts_with("task.train: 'run_spec_test.tsv' matches no file;"));
}

/// A run writes its config.yaml, which would not be read again.
TEST_F(RunSpecTest, OptionsThatGrowBeyondAMegabyteAreRefused) {
  std::string files;
  for (int i = 0; i < 100000; ++i) files += std::to_string(1000000 + i) + ",";
  const ConfigText text = yaml("data: {train: [" + files + "]}");
  ASSERT_LT(text.text.size(), std::size_t{1} << 20);
  expect_says(message_of([&] { read_run(text); }), "run.yaml: all options make a config.yaml of ");
}

TEST_F(RunSpecTest, RefusesTextsThatTheRunItselfWrites) {
  const std::string corpus = (folder_ / "corpus").string();
  for (const std::string name : {"cache/tokens-0123456789abcdef", "cache/rows-0123456789abcdef"}) {
    write_bytes(folder_ / "corpus" / name / "text.txt", "the sea\n");
  }
  const auto message = [&](const std::string& pattern, const std::string& folders) {
    const std::string files = "'" + corpus + pattern + "'";
    const ConfigText text{"run.yaml", "data: {train: [" + files + "], validation: [" + files +
                                          "], cache: " + folders + "\n"};
    return message_of([&] { resolve(text, {}, RunKind::pretraining); });
  };
  EXPECT_TRUE(message("/**", corpus + "/cache}\nrun_dir: elsewhere")
                  .ends_with(": the run reads it, and writes in " + corpus +
                             "/cache (data.cache); name the input more narrowly, or change "
                             "data.cache"));
  EXPECT_TRUE(message("/**", "elsewhere}\nrun_dir: " + corpus)
                  .ends_with("(run_dir); name the input more narrowly, or change run_dir"));
  const std::string link = (folder_ / "link").string();
  std::filesystem::create_directory_symlink(corpus, link);
  expect_says(message("/**", "elsewhere}\nrun_dir: " + link), "(run_dir); name the input");
  expect_says(message("/**", link + "/cache}\nrun_dir: elsewhere"), "(data.cache); name the input");
  expect_hides(message("/cache/rows-*/*", corpus + "/cache}\nrun_dir: elsewhere"), "writes in",
               "rows are what Python was given");
}

TEST_F(RunSpecTest, OptionsThatNameItsFiles) {
  RunSpec spec;
  spec.options.data.train = {TextSource::of_text("a.txt")};
  EXPECT_EQ(tokenizer_option(spec), "data.train") << "its texts train one";
  EXPECT_EQ(validation_option(spec), "data.train") << "a share is held out";
  spec.options.data.validation = {TextSource::of_text("b.txt")};
  EXPECT_EQ(validation_option(spec), "data.validation");
  spec.start.emplace();
  EXPECT_EQ(tokenizer_option(spec), "model.from");
  spec.options.tokenizer.path = "c";
  EXPECT_EQ(tokenizer_option(spec), "tokenizer.path");
  spec.inputs.emplace().train = {"d.tsv"};
  EXPECT_EQ(training_option(spec), "task.train");
  EXPECT_EQ(validation_option(spec), "task.train");
  spec.inputs->validation = {"e.tsv"};
  EXPECT_EQ(validation_option(spec), "task.validation");
}

TEST_F(RunSpecTest, ACheckCollectsAllErrors) {
  ResolutionErrors errors("run.yaml");
  resolve(read_run(yaml(two_faults)), RunKind::pretraining, errors);
  const std::string message = message_of([&] { errors.throw_if_any(); });
  EXPECT_EQ(std::ranges::count(message, '\n'), 2);
  for (const char* begin : {"run.yaml: data.train: 'absent.txt' matches no file;",
                            "\nrun.yaml: data.validation: 'missing.txt' matches no file;",
                            "\nrun.yaml: tokenizer.path: nowhere: no such file or folder"})
    expect_says(message, begin);
}

}  // namespace
}  // namespace nystrom::testing
