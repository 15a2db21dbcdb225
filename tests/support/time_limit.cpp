// Ends a test program when its current test runs for ten minutes, and prints the name of the test.
// A hanging test would otherwise give no message.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/support/rounds.h"

namespace nystrom::testing {
namespace {

constexpr unsigned limit_s = 600;

std::string message;  // written by the signal handler, which must not allocate

class TimeLimit : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    const unsigned seconds = limit_s * static_cast<unsigned>(test_rounds());
    message = std::string(test.test_suite_name()) + "." + test.name() + " took more than " +
              std::to_string(seconds) + " seconds\n";
    std::signal(SIGALRM, [](int) {
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
      ::_exit(1);
    });
    ::alarm(seconds);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { ::alarm(0); }
};

[[maybe_unused]] const bool appended = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit);
  return true;
}();

}  // namespace
}  // namespace nystrom::testing
