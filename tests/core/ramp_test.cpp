#include "core/base/ramp.h"

#include <gtest/gtest.h>

namespace nystrom {
namespace {

Ramp ramp_of(std::vector<std::pair<std::string, double>> points) {
  Ramp ramp;
  ramp.points = std::move(points);
  return ramp;
}

TEST(Ramp, IsLinearBetweenItsStepsAndStaysAtTheLast) {
  const Ramp ramp = ramp_of({{"0", 0.3}, {"10", 0.2}, {"20", 0.4}});
  EXPECT_EQ(ramp.at(0, 100), 0.3);
  EXPECT_DOUBLE_EQ(ramp.at(5, 100), 0.25);
  EXPECT_DOUBLE_EQ(ramp.at(15, 100), 0.3);
  EXPECT_EQ(ramp.at(20, 100), 0.4);
  EXPECT_EQ(ramp.at(99, 100), 0.4);
  EXPECT_EQ(ramp.largest(), 0.4);
}

TEST(Ramp, EndIsTheLastStep) {
  const Ramp ramp = ramp_of({{"0", 0.3}, {"end", 0.1}});
  EXPECT_DOUBLE_EQ(ramp.at(50, 101), 0.2);
  EXPECT_EQ(ramp.at(100, 101), 0.1);
  EXPECT_EQ(ramp.at(0, 1), 0.3);
}

TEST(Ramp, ANumberIsTheSameEverywhere) {
  EXPECT_EQ(Ramp(0.15).at(7, 10), 0.15);
  EXPECT_EQ(Ramp(0.15).last(), 0.15);
}

TEST(Ramp, EndIsNoSecondNameOfAStep) {
  const Ramp ramp = ramp_of({{"0", 0.3}, {"9", 0.9}, {"end", 0.1}});
  EXPECT_EQ(ramp.key_problem(10), "names the last step twice, as 9 and as end; leave one out");
  EXPECT_EQ(ramp.key_problem(11), "");
  EXPECT_EQ(ramp_of({{"0", 0.3}, {"end", 0.1}}).key_problem(1), "");
}

TEST(Ramp, SaysWhatIsWrongWithItsKeys) {
  const auto problem = [](std::vector<std::pair<std::string, double>> points) {
    return ramp_of(std::move(points)).key_problem(100);
  };
  EXPECT_EQ(problem({{"0", 1}, {"98", 1}, {"end", 1}}), "");
  EXPECT_EQ(problem({}), "is empty; give a number, or {0: 0.3, end: 0.15}");
  EXPECT_EQ(problem({{"0", 1}, {"1e1", 1}}),
            "'1e1' is no step; expected whole numbers or end, as in {0: 0.3, end: 0.15}");
  EXPECT_EQ(problem({{"-1", 1}}),
            "'-1' is no step; expected whole numbers or end, as in {0: 0.3, end: 0.15}");
  EXPECT_EQ(problem({{"end", 1}}), "begins at step end; it begins at 0");
  EXPECT_EQ(problem({{"0", 1}, {"end", 1}, {"9", 1}}), "has step 9 behind a later one, or twice");
  EXPECT_EQ(problem({{"0", 1}, {"0", 2}}), "has step 0 behind a later one, or twice");
  EXPECT_EQ(problem({{"0", 1}, {"100", 2}}),
            "reaches step 100 of a run of 100; begin earlier, or write end");
  EXPECT_EQ(ramp_of({{"0", 1}, {"100", 2}}).key_problem({}), "");
}

}  // namespace
}  // namespace nystrom
