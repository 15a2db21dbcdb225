#include "train/optim/schedule.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/named.h"

namespace nystrom {
namespace {

struct RateCase : testing::Named {
  ScheduleOptions schedule;
  std::int64_t steps;
  std::int64_t step;
  double expected;
};

class LearningRate : public ::testing::TestWithParam<RateCase> {};

TEST_P(LearningRate, OfOneStep) {
  const RateCase& c = GetParam();
  EXPECT_NEAR(learning_rate(2.0, c.schedule, c.steps, c.step), c.expected, 1e-15);
}

INSTANTIATE_TEST_SUITE_P(
    Schedule, LearningRate,
    ::testing::Values(RateCase{"FirstOfWarmup", {4, Decay::linear}, 8, 1, 0.5},  //
                      RateCase{"WithinWarmup", {4, Decay::cosine}, 8, 3, 1.5},   //
                      RateCase{"PeakEndsWarmup", {4, Decay::constant}, 8, 4, 2.0},
                      RateCase{"LinearFirst", {4, Decay::linear}, 8, 5, 1.6},  //
                      RateCase{"LinearLast", {4, Decay::linear}, 8, 8, 0.4},   //
                      RateCase{"CosineHalfway", {1, Decay::cosine}, 4, 3, 1.0},
                      RateCase{"CosineLast", {1, Decay::cosine}, 3, 3, 0.5},
                      RateCase{"ConstantLast", {4, Decay::constant}, 8, 8, 2.0},
                      RateCase{"PlateauLast", {2, Decay::wsd, {}, 0.3}, 10, 7, 2.0},
                      RateCase{"WsdFirst", {2, Decay::wsd, {}, 0.3}, 10, 8, 1.0},
                      RateCase{"WsdAfterWarmup", {7, Decay::wsd, {}, 1.0}, 10, 8, 1.0},
                      RateCase{"WsdTenthByDefault", {2, Decay::wsd}, 30, 27, 2.0},
                      RateCase{"NoWarmupFirst", {0, Decay::linear}, 4, 1, 1.6},  //
                      RateCase{"OnlyWarmupLast", {4, Decay::linear}, 4, 4, 2.0}),
    testing::case_name);

TEST(Warmup, IsATenthOfTheStepsWhereNothingIsSaid) {
  for (const auto& [steps, warmup] : {std::pair(500000, 10000), std::pair(100000, 10000),
                                      std::pair(5000, 500), std::pair(19, 1), std::pair(9, 0)})
    EXPECT_EQ(warmup_of({}, steps), warmup) << steps;
  EXPECT_EQ(warmup_of({7}, 20), 7);
  EXPECT_EQ(warmup_of({std::nullopt, Decay::linear, 0.25}, 10), 3);
}

TEST(Decay, HasNoRoomWhereTheWarmupTakesIt) {
  const auto wsd = [](std::optional<std::int64_t> warmup, std::optional<double> warmup_share,
                      std::optional<double> share) {
    return ScheduleOptions{warmup, Decay::wsd, warmup_share, share};
  };
  for (const ScheduleOptions& fits : {wsd(5, {}, 0.5), wsd({}, 0.5, 0.5), wsd({}, {}, 0.9),
                                      wsd(9, {}, {}), ScheduleOptions{10, Decay::linear}})
    EXPECT_EQ(decay_problem(fits, 10), "");
  EXPECT_EQ(decay_problem(wsd(6, {}, 0.5), 10),
            "schedule.decay_share 0.5 of the steps do not fit behind a warm-up of 6 of 10 steps; "
            "lower one of them");
  EXPECT_EQ(decay_problem(wsd({}, 0.6, 0.5), {}),
            "schedule.decay_share 0.5 of the steps do not fit behind a warm-up of "
            "schedule.warmup_share 0.6; lower one of them");
  EXPECT_NE(decay_problem(wsd({}, {}, 1), 10), "");
  EXPECT_NE(decay_problem(wsd(10, {}, {}), 10), "") << "null is 0.1";
  EXPECT_EQ(decay_problem(wsd(6, {}, 0.5), {}), "") << "the steps are not known";
}

TEST(LearningRate, NeverRisesAfterWarmup) {
  for (const Decay decay : {Decay::linear, Decay::cosine, Decay::constant, Decay::wsd}) {
    const ScheduleOptions schedule{10, decay};
    for (std::int64_t step = 11; step <= 100; ++step)
      EXPECT_LE(learning_rate(1.0, schedule, 100, step),
                learning_rate(1.0, schedule, 100, step - 1));
  }
}

TEST(LearningRate, IsPositiveInEveryStep) {
  for (const Decay decay : {Decay::linear, Decay::cosine, Decay::constant, Decay::wsd})
    for (std::int64_t step = 1; step <= 100; ++step)
      EXPECT_GT(learning_rate(1.0, {10, decay}, 100, step), 0);
}

TEST(LearningRate, RefusesStepsOutsideOfTheRun) {
  const auto error_of = [](const ScheduleOptions& schedule, std::int64_t steps, std::int64_t step) {
    return testing::message_of([&] { learning_rate(1.0, schedule, steps, step); });
  };
  EXPECT_EQ(error_of({}, 20000, 0), "learning_rate: step 0 is outside 1 to 20000");
  EXPECT_EQ(error_of({1, Decay::linear}, 4, 5), "learning_rate: step 5 is outside 1 to 4");
  EXPECT_EQ(error_of({9, Decay::linear}, 4, 1), "learning_rate: warmup_steps 9 is outside 0 to 4");
}

}  // namespace
}  // namespace nystrom
