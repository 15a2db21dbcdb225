// Saves a checkpoint while one or two system calls fail, for every call. The older checkpoint
// remains, the error is one clear line, and nothing is left behind.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <tuple>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/new_folder.h"
#include "tests/faults/file_operations.h"
#include "tests/faults/saving.h"
#include "tests/support/errors.h"
#include "tests/support/named.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

struct FaultCase : Named {
  int error;
};

class FailingCall : public ::testing::TestWithParam<std::tuple<FaultCase, Exchange>> {};

/// Saves in order. Calls fail only after the first three.
struct Save {
  std::int64_t step;
  int version;
};
constexpr Save saves[] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 1}};

struct Outcome {
  std::size_t saved = 3;  ///< number of successful saves
  int calls = 0;
  std::vector<std::string> failed_calls;
  std::string error;
};

/// Saves step 4 twice after steps 1 to 3 while calls fail.
Outcome save_with(const fs::path& root, Exchange exchange, std::vector<Fault> faults) {
  const fs::path checkpoints = checkpoints_below(root);
  {
    CheckpointFolder folder(checkpoints, 3);
    for (std::size_t i = 0; i < 3; ++i) save_step(folder, saves[i].step, saves[i].version);
  }
  const FileRecorder recorder(root, exchange, std::move(faults));
  Outcome outcome;
  try {
    CheckpointFolder folder(checkpoints, 3);
    for (; outcome.saved < std::size(saves); ++outcome.saved)
      save_step(folder, saves[outcome.saved].step, saves[outcome.saved].version);
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
  const Save& last = saves[outcome.saved - 1];
  const std::string weights = read_bytes(checkpoint_path(checkpoints, *newest) / "weights");
  const Save* next = outcome.saved < std::size(saves)
                         ? &saves[outcome.saved]
                         : nullptr;  // complete, but its name may not be durable
  EXPECT_TRUE(weights == weights_of(last.step, last.version) ||
              (next && weights == weights_of(next->step, next->version)));
  for (const std::int64_t step : checkpoint_steps(checkpoints))
    EXPECT_EQ(checkpoint_problem(checkpoint_path(checkpoints, step)), "");
  EXPECT_GE(checkpoint_steps(checkpoints).size(), 3u);
  const std::string& error = outcome.error;
  EXPECT_TRUE(error.empty() || error.starts_with(root.string())) << "names no file: " << error;
  CheckpointFolder(checkpoints, 3).remove_leftovers();
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name.find(".tmp-") == std::string::npos && !name.starts_with(".trash-"))
        << "left behind: " << entry.path();
  }
}

TEST_P(FailingCall, LosesNothing) {
  const auto [fault, exchange] = GetParam();
  const TemporaryFolder untouched;
  const int calls = save_with(untouched.path(), exchange, {}).calls;
  int failed = 0;
  for (int call = 1; call <= calls; ++call) {
    const TemporaryFolder root;
    const Outcome outcome = save_with(root.path(), exchange, {{call, fault.error}});
    SCOPED_TRACE(
        fmt::format("call {} ({}): {}", call, fmt::join(outcome.failed_calls, ""), outcome.error));
    ASSERT_NO_FATAL_FAILURE(expect_whole(root.path(), outcome));
    failed += !outcome.failed_calls.empty();
  }
  EXPECT_GT(failed, fault.error == Fault::short_write ? 6 : 100);
}

constexpr FaultCase fault_cases[] = {{"NoSpace", ENOSPC},
                                     {"InputOutputError", EIO},
                                     {"Quota", EDQUOT},
                                     {"Interrupted", EINTR},
                                     {"ShortWrite", Fault::short_write}};
std::string name_of(const ::testing::TestParamInfo<FailingCall::ParamType>& test) {
  return std::get<FaultCase>(test.param).name;
}

INSTANTIATE_TEST_SUITE_P(Saving, FailingCall,
                         ::testing::Combine(::testing::ValuesIn(fault_cases),
                                            ::testing::Values(Exchange::possible)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SavingWithoutExchange, FailingCall,
                         ::testing::Combine(::testing::Values(fault_cases[1]),
                                            ::testing::Values(Exchange::impossible)),
                         name_of);

TEST(Checkpoints, EndNoRunWhereTheyCannotBeRemoved) {
  const TemporaryFolder untouched;
  const int calls = save_with(untouched.path(), Exchange::possible, {}).calls;
  int failed = 0;
  for (int call = 1; call <= calls; ++call) {
    const TemporaryFolder root;
    const Outcome outcome = save_with(root.path(), Exchange::possible, {{call, EBUSY}});
    if (outcome.failed_calls != std::vector<std::string>{"unlink"}) continue;
    EXPECT_EQ(outcome.saved, std::size(saves)) << outcome.error;
    ASSERT_NO_FATAL_FAILURE(expect_whole(root.path(), outcome));
    ++failed;
  }
  EXPECT_GT(failed, 0);
}

TEST(NewFolders, AreMadeWhereFoldersCannotBeSynced) {
  int unsynced = 0;
  for (const int error : {EINVAL, ENOTSUP, EIO}) {
    for (int call = 1; call <= 8; ++call) {
      const TemporaryFolder root;
      const FileRecorder recorder(root.path(), Exchange::possible, {{call, error}});
      const std::string problem = message_of([&] { make_folders(root / "outer" / "inner"); });
      if (recorder.failed_calls() != std::vector<std::string>{"fsync"}) continue;
      EXPECT_EQ(problem.empty(), error != EIO) << problem;
      ++unsynced;
    }
  }
  EXPECT_GE(unsynced, 3);
}

TEST(NewFolders, AreMadeWhereAFileSystemHasNoLocks) {
  const TemporaryFolder root;
  bool without_lock = false;
  for (int call = 1; call <= 5; ++call) {
    const fs::path place = root / std::to_string(call);
    std::vector<std::string> failed;
    try {
      const FileRecorder recorder(root.path(), Exchange::possible, {{call, ENOSYS}});
      NewFolder folder(place);
      failed = recorder.failed_calls();
      folder.commit();
    } catch (const InputError&) {
      EXPECT_NE(failed, std::vector<std::string>{"flock"});
      continue;
    }
    without_lock |= failed == std::vector<std::string>{"flock"} && fs::is_directory(place);
  }
  EXPECT_TRUE(without_lock);
}

/// The second fault often hits the cleanup after the first.
TEST(TwoFailingCalls, LoseNothing) {
  const int errors[] = {ENOSPC, EIO, EDQUOT, EINTR, Fault::short_write};
  std::minstd_rand random(1);
  const auto choose = [&](int last) { return std::uniform_int_distribution(0, last)(random); };
  const TemporaryFolder untouched;
  const int calls = save_with(untouched.path(), Exchange::possible, {}).calls;
  int both = 0;
  for (int pair = 0; pair < 150 * test_rounds(); ++pair) {
    const TemporaryFolder root;
    const int first = 1 + choose(calls - 1),
              second = first + 1 + (pair % 2 ? choose(calls) : choose(9));
    const Outcome outcome = save_with(root.path(), Exchange(pair % 2),
                                      {{first, errors[choose(4)]}, {second, errors[choose(4)]}});
    SCOPED_TRACE(fmt::format("calls {} and {} ({}): {}", first, second,
                             fmt::join(outcome.failed_calls, ", "), outcome.error));
    ASSERT_NO_FATAL_FAILURE(expect_whole(root.path(), outcome));
    both += outcome.failed_calls.size() == 2;
  }
  EXPECT_GT(both, 30);
}

}  // namespace
}  // namespace nystrom::testing
