// nystrom --completion bash, in bash.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/places.h"
#include "tests/support/run_program.h"

namespace nystrom::testing {
namespace {

/// What bash offers for the last of `words`, with spaces between; `words` are as bash splits them,
/// "=" being one.
std::string completed(const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  std::string script = "source <(\"$0\" --completion bash); COMP_WORDS=(";
  for (const std::string& word : words) script += "\"" + word + "\" ";
  script += "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _nystrom; echo \"${COMPREPLY[*]}\"";
  const Outcome outcome =
      run_command(folder, "bash -c '" + script + "' '" + build_folder().string() + "/nystrom'");
  EXPECT_EQ(outcome.err, "");
  return outcome.out.substr(0, outcome.out.find('\n'));
}

TEST(Completion, IsOfNystromAndFallsBackToFiles) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_command(folder, "bash -c 'source <(\"$0\" --completion bash); complete -p nystrom' '" +
                              build_folder().string() + "/nystrom'");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "complete -o default -F _nystrom nystrom\n");
}

TEST(Completion, KnowsCommands) {
  EXPECT_EQ(completed({"nystrom", "pre"}), "prepare pretrain predict");
}
TEST(Completion, KnowsOptionsOfTheProgram) {
  EXPECT_EQ(completed({"nystrom", "--v"}), "--version");
}
TEST(Completion, KnowsItself) { EXPECT_EQ(completed({"nystrom", "--completion", ""}), "bash"); }
TEST(Completion, KnowsOptionsOfACommand) {
  EXPECT_EQ(completed({"nystrom", "bench", "--mo"}), "--mode");
}
TEST(Completion, KnowsFlags) { EXPECT_EQ(completed({"nystrom", "doctor", "--j"}), "--json"); }
TEST(Completion, KnowsNoOptionsOfOtherCommands) {
  EXPECT_EQ(completed({"nystrom", "pretrain", "--mo"}), "");
}
TEST(Completion, KnowsWordsOfAnOption) {
  EXPECT_EQ(completed({"nystrom", "forward", "model", "--dtype", ""}), "f32 bf16 f16 f64");
}
TEST(Completion, KnowsWordsBehindAnEqualsSign) {
  EXPECT_EQ(completed({"nystrom", "forward", "--dtype", "="}), "f32 bf16 f16 f64");
  EXPECT_EQ(completed({"nystrom", "forward", "--dtype", "=", "b"}), "bf16");
}
TEST(Completion, KnowsRecipes) {
  EXPECT_EQ(completed({"nystrom", "config", "base-"}), "base-1024 base-2048 base-4096");
}
TEST(Completion, TakesValuesOfOptionsForNoArgument) {
  EXPECT_EQ(completed({"nystrom", "config", "--explain", ""}), "");
}
TEST(Completion, KnowsCommandsOfACommand) {
  EXPECT_EQ(completed({"nystrom", "approximation", "m"}), "matrices model");
  EXPECT_EQ(completed({"nystrom", "approximation", "matrices", "--ke"}), "--kernel");
  EXPECT_EQ(completed({"nystrom", "approximation", "matrices", "--kernel", ""}), "raw softmax");
}
TEST(Completion, LeavesFilesToBash) { EXPECT_EQ(completed({"nystrom", "info", ""}), ""); }

}  // namespace
}  // namespace nystrom::testing
