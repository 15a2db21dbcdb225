// The resolution of a run: what its file names is opened once, and all errors come from one place.
#include "train/loop/run_spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_checkpoint.h"

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
              }).starts_with("'absent.txt' matches no file;"));
}

TEST_F(RunSpecTest, RefusesTextsThatTheRunItselfWrites) {
  const std::string corpus = (folder_ / "corpus").string();
  std::filesystem::create_directories(folder_ / "corpus/cache");
  write_bytes(folder_ / "corpus/text.txt", "the sea\n");
  write_bytes(folder_ / "corpus/cache/index.json", "{}");
  const std::string options =
      "data: {train: ['" + corpus + "/**'], validation: ['" + corpus + "/text.txt'], cache: ";
  EXPECT_TRUE(
      message_of([&] { resolve(yaml(options + corpus + "/cache}\n"), {}, RunKind::pretraining); })
          .ends_with("/index.json lies in data.cache, which the run writes; name the texts "
                     "more narrowly, or change data.cache"));
  EXPECT_TRUE(
      message_of([&] {
        const ConfigText text{"run.yaml", options + "elsewhere}\nrun_dir: " + corpus + "\n"};
        resolve(text, {}, RunKind::pretraining);
      })
          .ends_with("lies in run_dir, which the run writes; name the texts more narrowly, or "
                     "change run_dir"));
}

TEST_F(RunSpecTest, ACheckCollectsAllErrors) {
  ResolutionErrors errors("run.yaml");
  resolve(read_run(yaml(two_faults)), RunKind::pretraining, errors);
  const std::string message = message_of([&] { errors.throw_if_any(); });
  EXPECT_EQ(std::ranges::count(message, '\n'), 2);
  for (const char* begin : {"run.yaml: data.train: 'absent.txt' matches no file;",
                            "\nrun.yaml: data.validation: 'missing.txt' matches no file;",
                            "\nrun.yaml: tokenizer.path: nowhere: no such file or folder"})
    EXPECT_NE(message.find(begin), message.npos) << message;
}

}  // namespace
}  // namespace nystrom::testing
