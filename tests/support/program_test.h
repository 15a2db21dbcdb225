// A test that runs the program in a folder of its own, and what a run may end with.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/recorded_metric.h"
#include "tests/support/run_program.h"
#include "tests/support/says.h"

namespace nystrom::testing {

/// Returns the outcome of a command that succeeds. Otherwise the test ends as failed.
inline Outcome succeeded(Outcome outcome, Caller caller = Caller::here()) {
  if (outcome.code == 0) return outcome;
  const std::string message = outcome.command + "\nends with " + std::to_string(outcome.code) +
                              ", expected 0\n" + outcome.out + outcome.err;
  [&] { GTEST_FAIL_AT(caller.file, caller.line) << message; }();
  // GoogleTest takes this for the end of the test, and reports nothing more.
  throw ::testing::AssertionException(
      {::testing::TestPartResult::kFatalFailure, caller.file, caller.line, message.c_str()});
}

/// Returns the error message of a command that is refused.
inline std::string refused(const Outcome& outcome, Caller caller = Caller::here()) {
  if (outcome.code != 2)
    ADD_FAILURE_AT(caller.file, caller.line)
        << outcome.command << "\nends with " << outcome.code << ", expected 2\n"
        << outcome.out << outcome.err;
  return outcome.err;
}

/// Runs the program in a folder of the test.
class ProgramTest : public ::testing::Test {
 protected:
  /// Runs `nystrom ARGUMENTS` (shell words), which succeeds. Otherwise the test ends as failed.
  const Outcome& run(const std::string& arguments, Caller caller = Caller::here()) {
    last_ = run_command(folder_, environment_ + program_word() + arguments);
    return succeeded(last_, caller), last_;
  }
  /// Returns the error message of `nystrom ARGUMENTS`, which is refused.
  std::string refusal(const std::string& arguments, Caller caller = Caller::here()) {
    last_ = run_command(folder_, environment_ + program_word() + arguments);
    return refused(last_, caller);
  }
  /// Expects that `nystrom ARGUMENTS` is refused with this message in one line, and nothing else.
  void expect_refused(const std::string& arguments, const std::string& message,
                      Caller caller = Caller::here()) {
    const std::string got = refusal(arguments, caller), expected = "nystrom: " + message + "\n";
    if (got != expected || last_.out != "")
      ADD_FAILURE_AT(caller.file, caller.line)
          << last_.command << "\nexpected: " << expected << "got: " << got << last_.out;
  }

  /// A metric from every record of a run that has it.
  std::vector<double> metric(const std::string& run_dir, const std::string& name) const {
    return recorded_metric(folder_ / run_dir, name);
  }

  TemporaryFolder folder_;
  std::string environment_;  // of run() and refusal(), such as "TMPDIR=tmp "
  Outcome last_;             // of both
};

}  // namespace nystrom::testing
