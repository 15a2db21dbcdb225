// The line of a progress display: in a narrow terminal the bar goes first, and the time left stays.
#include "core/base/progress.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nystrom
