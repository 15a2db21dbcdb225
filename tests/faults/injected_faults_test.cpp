// Saving a checkpoint while one system call fails, or two, whichever they are: the older checkpoint stays, the error is one clear line, and
// nothing is left behind.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "core/error.h"
#include "tests/faults/file_operations.h"
#include "tests/faults/saving.h"
#include "tests/support/rounds.h"
#include "tests/train/temporary_folder.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

struct FaultCase {
  const char* name;
  int error;
};
void PrintTo(const FaultCase& test, std::ostream* out) { *out << test.name; }  // NOLINT: GoogleTest's name

class FailingCall : public ::testing::TestWithParam<FaultCase> {};

struct Outcome {
  int calls = 0;
  std::vector<std::string> failed_calls;
  std::string error;
};

/// Saves step 4 beside steps 1 to 3 while calls fail.
Outcome save_with(const fs::path& root, std::vector<Fault> faults) {
  const fs::path checkpoints = checkpoints_below(root);
  {
    CheckpointFolder folder(checkpoints, 3);
    for (std::int64_t step = 1; step <= 3; ++step) save_step(folder, step);
  }
  const FileRecorder recorder(root, std::move(faults));
  Outcome outcome;
  try {
    CheckpointFolder folder(checkpoints, 3);
    save_step(folder, 4);
  } catch (const InputError& error) {
    outcome.error = error.what();
  }
  outcome.calls = recorder.calls();
  outcome.failed_calls = recorder.failed_calls();
  return outcome;
}

void expect_whole(const fs::path& root, const Outcome& outcome) {
  const fs::path checkpoints = checkpoints_below(root);
  std::vector<std::string> passed_over;
  const auto newest = newest_checkpoint(checkpoints, passed_over);
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(passed_over.empty()) << passed_over.front();
  EXPECT_GE(*newest, outcome.error.empty() ? 4 : 3);
  for (const std::int64_t step : checkpoint_steps(checkpoints)) EXPECT_EQ(checkpoint_problem(checkpoint_path(checkpoints, step)), "");
  EXPECT_GE(checkpoint_steps(checkpoints).size(), 3u);
  const std::string& error = outcome.error;
  EXPECT_TRUE(error.empty() || error.starts_with(root.string())) << "names no file: " << error;
  CheckpointFolder(checkpoints, 3).remove_leftovers();
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name.find(".tmp-") == std::string::npos && !name.starts_with(".trash-")) << "left behind: " << entry.path();
  }
}

TEST_P(FailingCall, LosesNothing) {
  int failed = 0;
  for (int call = 1, calls = 1; call <= calls; ++call) {
    const TemporaryFolder root;
    const Outcome outcome = save_with(root.path(), {{call, GetParam().error}});
    SCOPED_TRACE(fmt::format("call {} ({}): {}", call, fmt::join(outcome.failed_calls, ""), outcome.error));
    ASSERT_NO_FATAL_FAILURE(expect_whole(root.path(), outcome));
    calls = outcome.calls;
    failed += !outcome.failed_calls.empty();
  }
  EXPECT_GT(failed, GetParam().error == Fault::short_write ? 3 : 50);
}

INSTANTIATE_TEST_SUITE_P(Saving, FailingCall,
                         ::testing::Values(FaultCase{"NoSpace", ENOSPC}, FaultCase{"InputOutputError", EIO}, FaultCase{"Quota", EDQUOT},
                                           FaultCase{"Interrupted", EINTR}, FaultCase{"ShortWrite", Fault::short_write}),
                         [](const auto& test) { return std::string(test.param.name); });

/// The second fault often meets what cleans up after the first.
TEST(TwoFailingCalls, LoseNothing) {
  const int errors[] = {ENOSPC, EIO, EDQUOT, EINTR, Fault::short_write};
  std::minstd_rand random(1);
  const auto choose = [&](int last) { return std::uniform_int_distribution(0, last)(random); };
  const TemporaryFolder untouched;
  const int calls = save_with(untouched.path(), {}).calls;
  int both = 0;
  for (int pair = 0; pair < 150 * test_rounds(); ++pair) {
    const TemporaryFolder root;
    const int first = 1 + choose(calls - 1), second = first + 1 + (pair % 2 ? choose(calls) : choose(9));
    const Outcome outcome = save_with(root.path(), {{first, errors[choose(4)]}, {second, errors[choose(4)]}});
    SCOPED_TRACE(fmt::format("calls {} and {} ({}): {}", first, second, fmt::join(outcome.failed_calls, ", "), outcome.error));
    ASSERT_NO_FATAL_FAILURE(expect_whole(root.path(), outcome));
    both += outcome.failed_calls.size() == 2;
  }
  EXPECT_GT(both, 30);
}

}  // namespace
}  // namespace nystrom::testing
