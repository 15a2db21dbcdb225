// Runs a test program on one thread. Its models are so small that waking a second thread costs more
// than all their computation, especially on a busy machine.
#include <gtest/gtest.h>

#include "core/threads.h"

namespace nystrom::testing {
namespace {

class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { set_num_threads(1); }
};

[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace
}  // namespace nystrom::testing
