// The resolution of a run: what its file names is opened once, and all errors come from one place.
#include "train/loop/run_spec.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(message_of([&] { resolve(yaml(two_faults), {}, RunKind::pretraining); }),
            "no file matches 'absent.txt'");
}

TEST_F(RunSpecTest, ACheckCollectsAllErrors) {
  ResolutionErrors errors("run.yaml");
  resolve(read_run(yaml(two_faults)), RunKind::pretraining, errors);
  EXPECT_EQ(message_of([&] { errors.throw_if_any(); }),
            "run.yaml: data.train: no file matches 'absent.txt'\n"
            "run.yaml: data.validation: no file matches 'missing.txt'\n"
            "run.yaml: tokenizer.path: nowhere: no such file or folder");
}

}  // namespace
}  // namespace nystrom::testing
