// Tests nystrom --completion in bash, and in zsh and fish where they are installed.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/places.h"
#include "tests/support/run_program.h"

namespace nystrom::testing {
namespace {

/// The completions of bash for the last of `words`, separated by spaces. Bash splits words, and "="
/// is a word of its own.
std::string completed(const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  std::string script = "source <(\"$0\" --completion bash); COMP_WORDS=(";
  for (const std::string& word : words)
    script += word == "nystrom" ? "\"$0\" " : "\"" + word + "\" ";
  script += "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _nystrom; echo \"${COMPREPLY[*]}\"";
  const Outcome outcome = run_command(folder, "bash -c '" + script + "' " + program_word());
  EXPECT_EQ(outcome.err, "");
  return outcome.out.substr(0, outcome.out.find('\n'));
}

TEST(Completion, IsOfNystromAndFallsBackToFiles) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_command(folder, "bash -c 'source <(\"$0\" --completion bash); complete -p nystrom' " +
                              program_word());
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "complete -o default -F _nystrom nystrom\n");
}

TEST(Completion, KnowsCommands) {
  EXPECT_EQ(completed({"nystrom", "pre"}), "prepare pretrain predict");
}
TEST(Completion, KnowsOptionsOfTheProgram) {
  EXPECT_EQ(completed({"nystrom", "--v"}), "--version");
}
TEST(Completion, KnowsItself) {
  EXPECT_EQ(completed({"nystrom", "--completion", ""}), "bash zsh fish");
}
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
TEST(Completion, KnowsWordsInTheWordOfTheirOption) {
  EXPECT_EQ(completed({"nystrom", "forward", "--dtype=b"}), "--dtype=bf16");
}
TEST(Completion, KnowsNoOptionsThatAreRefused) {
  EXPECT_EQ(completed({"nystrom", "doctor", "--se"}), "");
}
TEST(Completion, KnowsRecipes) {
  EXPECT_EQ(completed({"nystrom", "config", "base-"}), "base-1024 base-2048 base-4096");
}
TEST(Completion, TakesValuesOfOptionsForNoArgument) {
  EXPECT_EQ(completed({"nystrom", "evaluate", "--batch", ""}), "");
}
TEST(Completion, KnowsCommandsOfACommand) {
  EXPECT_EQ(completed({"nystrom", "approximation", "m"}), "matrices model");
  EXPECT_EQ(completed({"nystrom", "approximation", "matrices", "--ke"}), "--kernel");
  EXPECT_EQ(completed({"nystrom", "approximation", "matrices", "--kernel", ""}), "raw softmax");
}
TEST(Completion, KnowsTheOptionsOfARun) {
  EXPECT_EQ(completed({"nystrom", "pretrain", "--set", "optimizer.le"}),
            "optimizer.learning_rate=");
  EXPECT_EQ(completed({"nystrom", "finetune", "--grid", "training.ep"}), "training.epochs=");
  EXPECT_EQ(completed({"nystrom", "config", "--explain", "optimizer.le"}),
            "optimizer.learning_rate");
}
TEST(Completion, LeavesFilesToBash) { EXPECT_EQ(completed({"nystrom", "info", ""}), ""); }

/// The completions of fish for a command line, a line each.
std::string completed_by_fish(const std::string& line) {
  const TemporaryFolder folder;
  const Outcome outcome = run_command(
      folder, "PATH=" + build_folder().string() +
                  ":$PATH fish --no-config -c 'nystrom --completion fish | source; complete -C \"" +
                  line + "\"'");
  EXPECT_EQ(outcome.err, "");
  std::string words;  // each line is a word, and a description behind a tab
  std::istringstream lines(outcome.out);
  for (std::string each; std::getline(lines, each);)
    words += (words.empty() ? "" : " ") + each.substr(0, each.find('\t'));
  return words;
}

TEST(Completion, WorksInFish) {
  const TemporaryFolder folder;
  if (run_command(folder, "sh -c 'command -v fish'").code != 0) GTEST_SKIP() << "no fish";
  EXPECT_EQ(completed_by_fish("nystrom pre"), "predict prepare pretrain");
  EXPECT_EQ(completed_by_fish("nystrom bench --mo"), "--mode");
  EXPECT_EQ(completed_by_fish("nystrom pretrain --set optimizer.le"), "optimizer.learning_rate=");
  EXPECT_EQ(completed_by_fish("nystrom config base-"), "base-1024 base-2048 base-4096");
  EXPECT_EQ(completed_by_fish("nystrom forward --dtype=b"), "--dtype=bf16");
  EXPECT_EQ(completed_by_fish("nystrom predict model --ke"), "");  // of approximation matrices
  EXPECT_EQ(completed_by_fish("nystrom info /proc/self/stat"),
            "/proc/self/stat /proc/self/statm /proc/self/status");
}

TEST(Completion, WorksInZsh) {
  const TemporaryFolder folder;
  if (run_command(folder, "sh -c 'command -v zsh'").code != 0) GTEST_SKIP() << "no zsh";
  const Outcome outcome = run_command(
      folder,
      "zsh -f -c 'source <(\"$0\" --completion zsh); whence -w _nystrom; COMP_WORDS=($0 pre); "
      "COMP_CWORD=1; emulate ksh -c _nystrom; echo ${COMPREPLY[*]}' '" +
          build_folder().string() + "/nystrom'");
  EXPECT_EQ(outcome.out, "_nystrom: function\nprepare pretrain predict\n") << outcome.err;
}

/// As a file in zsh's function path, the script is loaded by the first completion, which puts
/// bash's words in its own place.
TEST(Completion, IsAnAutoloadedFunctionOfZsh) {
  const TemporaryFolder folder;
  EXPECT_TRUE(run_program(folder, "--completion zsh").out.starts_with("#compdef nystrom\n"));
  if (run_command(folder, "sh -c 'command -v zsh'").code != 0) GTEST_SKIP() << "no zsh";
  const Outcome outcome = run_command(
      folder,
      "zsh -f -c '\"$0\" --completion zsh > _nystrom; fpath=($PWD $fpath); autoload -U compinit; "
      "compinit -u -D; echo $_comps[nystrom]; _nystrom 2> /dev/null; echo $_comps[nystrom]' " +
          program_word());
  EXPECT_EQ(outcome.out, "_nystrom\n_bash_complete -o default -F _nystrom\n") << outcome.err;
}

}  // namespace
}  // namespace nystrom::testing
