// What programs report of an exception.
#include "train/loop/failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>

namespace nystrom::testing {
namespace {

TEST(Failure, OfAThreadSaysWhatToDo) {
  Failure failure{};
  try {
    throw std::system_error(EAGAIN, std::generic_category());
  } catch (...) {
    failure = current_failure();
  }
  EXPECT_EQ(failure.kind, FailureKind::input);
  EXPECT_EQ(failure.message,
            "cannot start a thread: Resource temporarily unavailable; raise the limit of processes "
            "(ulimit -u), or lower --threads");
}

}  // namespace
}  // namespace nystrom::testing
