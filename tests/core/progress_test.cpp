// The line of a progress display: in a narrow terminal the bar goes first, and the time left stays.
#include "core/base/progress.h"

#include <gtest/gtest.h>

#include <thread>

namespace nystrom {
namespace {

TEST(ProgressLine, FitsTheWidth) {
  const auto line = [](std::size_t width) {
    return progress_line("step 5/20", 0.25, "loss 4.1, 900 tokens/s, 0.53 GB", "2:03 left", width);
  };
  const std::string whole =
      "step 5/20 [#####...............] loss 4.1, 900 tokens/s, 0.53 GB, 2:03 left";
  EXPECT_EQ(line(std::string::npos), whole);
  EXPECT_EQ(line(whole.size()), whole);
  EXPECT_EQ(line(whole.size() - 1), "step 5/20 loss 4.1, 900 tokens/s, 0.53 GB, 2:03 left");
  EXPECT_EQ(line(51), "step 5/20 loss 4.1, 900 tokens/s, 2:03 left");
  EXPECT_EQ(line(30), "step 5/20 loss 4.1, 2:03 left");
  EXPECT_EQ(line(28), "step 5/20 2:03 left");
  EXPECT_EQ(line(10), "2:03 left");
}

TEST(ProgressLine, WithoutDetails) {
  EXPECT_EQ(progress_line("text 2/2", 1, "", "0:00 left", 80),
            "text 2/2 [####################] 0:00 left");
}

TEST(Progress, KnowsNoTimeBeforeTheFirstStep) {
  std::string shown;
  Log log(false, [&](const std::string& line) { shown = line; });
  Progress("step", 5, 20, log).update(5, "", true);
  EXPECT_EQ(shown, "step 5/20 [#####...............] 0:00 left");
}

/// Of the steps that are left, each does a thousand times the work of those before.
TEST(Progress, TheTimeLeftFollowsTheWork) {
  std::string shown;
  Log log(false, [&](const std::string& line) { shown = line; });
  const auto work = [](std::int64_t steps) {
    return static_cast<double>(steps <= 40 ? steps : 40 + 1000 * (steps - 40));
  };
  Progress progress("step", 0, 80, log, work);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  progress.update(40, "", true);
  EXPECT_TRUE(shown.starts_with("step 40/80 [##########..........] ")) << shown;
  EXPECT_FALSE(shown.ends_with(" 0:00 left")) << shown;
}

}  // namespace
}  // namespace nystrom
