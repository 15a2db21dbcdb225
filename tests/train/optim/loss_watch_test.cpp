#include "train/optim/loss_watch.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nystrom::testing {
namespace {

/// A loss that falls from 6 towards 4 with ripples.
double usual(int step) { return 4 + 2 * std::exp(-step / 200.0) + 0.05 * std::sin(step * 1.7); }

int warnings(LossWatch& watch, int first, int last) {
  int count = 0;
  for (int step = first; step < last; ++step) count += watch.update(usual(step)).has_value();
  return count;
}

TEST(LossWatch, SaysNothingOfAUsualRun) {
  LossWatch watch;
  EXPECT_EQ(warnings(watch, 0, 2000), 0);
}

TEST(LossWatch, TellsOfThreeFarLossesInARowOnce) {
  LossWatch watch;
  EXPECT_EQ(warnings(watch, 0, 500), 0);
  EXPECT_EQ(watch.update(7), std::nullopt);
  EXPECT_EQ(watch.update(7.25), std::nullopt);
  EXPECT_EQ(
      watch.update(7.5),
      "the loss has spiked: 7.0000, 7.2500, 7.5000 in the last 3 steps; its baseline is 4.2162");
  int more = 0;
  for (int step = 0; step < 200; ++step)
    more += watch.update(7.5 + 0.01 * std::sin(step)).has_value();
  EXPECT_EQ(more, 0) << "the new level is the usual one now";
}

TEST(LossWatch, OneOrTwoFarLossesAreChance) {
  LossWatch watch;
  EXPECT_EQ(warnings(watch, 0, 100), 0);
  for (int step = 100; step < 400; step += 3) {
    EXPECT_EQ(watch.update(9), std::nullopt);
    EXPECT_EQ(watch.update(9), std::nullopt);
    EXPECT_EQ(watch.update(usual(step)), std::nullopt);
  }
}

TEST(LossWatch, FallsAndSkippedStepsAreNoJumps) {
  LossWatch watch;
  EXPECT_EQ(warnings(watch, 0, 100), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(watch.update(1), std::nullopt);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(watch.update(NAN), std::nullopt);
}

TEST(LossWatch, AStepThatIsSkippedEndsTheRow) {
  LossWatch watch;
  EXPECT_EQ(warnings(watch, 0, 100), 0);
  for (const double loss : {9.0, 9.0, static_cast<double>(NAN), 9.0, 9.0})
    EXPECT_EQ(watch.update(loss), std::nullopt);
}

TEST(LossWatch, GoesOnAsItWasSaved) {
  LossWatch watch;
  EXPECT_EQ(warnings(watch, 0, 150), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(watch.update(9), std::nullopt);
  LossWatch again(watch.baseline(), watch.outliers());
  const auto spike = again.update(9);
  EXPECT_NE(spike, std::nullopt);
  EXPECT_EQ(spike, watch.update(9));
}

TEST(LossWatch, ALossThatHardlyMovesMayRipple) {
  LossWatch watch;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(watch.update(0.5), std::nullopt);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(watch.update(0.502), std::nullopt);
}

}  // namespace
}  // namespace nystrom::testing
