// The rule that changes the loss scale of f16.
#include "train/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nystrom::testing {
namespace {

void steps(LossScale& scale, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) scale.update(true);
}

TEST(LossScale, StartsAt65536) { EXPECT_EQ(LossScale().value(), 65536); }

TEST(LossScale, DoublesAfter2000FiniteStepsInARow) {
  LossScale scale;
  steps(scale, 1999);
  EXPECT_EQ(scale.value(), 65536);
  steps(scale, 1);
  EXPECT_EQ(scale.value(), 131072);
  steps(scale, 1999);
  EXPECT_EQ(scale.value(), 131072) << "counted from the last change";
  steps(scale, 1);
  EXPECT_EQ(scale.value(), 262144);
}

TEST(LossScale, HalvesAtOnceAndCountsAnew) {
  LossScale scale;
  steps(scale, 1999);
  scale.update(false);
  EXPECT_EQ(scale.value(), 32768);
  scale.update(false);
  EXPECT_EQ(scale.value(), 16384);
  steps(scale, 1999);
  EXPECT_EQ(scale.value(), 16384);
  steps(scale, 1);
  EXPECT_EQ(scale.value(), 32768);
}

TEST(LossScale, FallsToOneAndNoFurther) {
  LossScale scale;
  for (int i = 0; i < 15; ++i) scale.update(false);
  EXPECT_EQ(scale.value(), 2);
  EXPECT_TRUE(scale.explains_skip(3));
  EXPECT_FALSE(scale.explains_skip(NAN)) << "a loss is not scaled";
  EXPECT_FALSE(scale.explains_skip(INFINITY));
  scale.update(false);
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.explains_skip(3));
  scale.update(false);
  EXPECT_EQ(scale.value(), 1);
}

}  // namespace
}  // namespace nystrom::testing
