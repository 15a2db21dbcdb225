// A run whose speed collapses is told of once, with the reason that the processors' times show.
#include "train/loop/run_logger.h"

#include <gtest/gtest.h>

namespace nystrom {
namespace {

/// Speeds of 1000 tokens a second for 4 windows, then of `tokens` in 20 steps of half a second.
std::optional<std::string> message_of(SpeedWatch& watch, ProcessorTimes& times,
                                      ProcessorTimes later, std::int64_t tokens) {
  for (std::int64_t step = 1; step <= 40; ++step)
    EXPECT_EQ(watch.update(step, 500, 0.5), std::nullopt) << step;
  std::optional<std::string> first;
  for (std::int64_t step = 41; step <= 60; ++step) {
    if (step == 50) times = later;
    const auto message = watch.update(step, tokens, 0.5);
    if (!message) continue;
    EXPECT_FALSE(first) << *message;
    EXPECT_EQ(step, 50);
    first = message;
  }
  return first;
}

TEST(SpeedWatch, NamesOtherPrograms) {
  ProcessorTimes times;
  SpeedWatch watch(false, [&] { return times; });
  // In 5 seconds 3 of its own, and 10 on the whole machine.
  const std::string message = message_of(watch, times, {3, 10}, 100).value_or("");
  EXPECT_TRUE(
      message.starts_with("step 50: 200 tokens/s, 1000 at step 10; other programs use 1.4 of "))
      << message;
  EXPECT_TRUE(message.ends_with("; end them, or start this run with fewer --threads")) << message;
}

TEST(SpeedWatch, NamesAnIdleMachineAndAGpu) {
  ProcessorTimes times;
  SpeedWatch idle(false, [&] { return times; });
  EXPECT_EQ(message_of(idle, times, {3, 3}, 100),
            "step 50: 200 tokens/s, 1000 at step 10; no other program is busy: the processor is "
            "hot, or limited by its container or host");
  SpeedWatch blind(false, [&] { return times; });
  EXPECT_EQ(
      message_of(blind, times, {3, 0}, 100),
      "step 50: 200 tokens/s, 1000 at step 10; the system does not tell whether other programs "
      "are busy");
  SpeedWatch gpu(true, [&] { return times; });
  EXPECT_EQ(message_of(gpu, times, {3, 3}, 100),
            "step 50: 200 tokens/s, 1000 at step 10; does another program use the GPU?");
}

TEST(SpeedWatch, KeepsSilentAboveAThirdAndInShortHiccups) {
  ProcessorTimes times;
  SpeedWatch half(false, [&] { return times; });
  EXPECT_EQ(message_of(half, times, {}, 200), std::nullopt);
  SpeedWatch quick(false, [&] { return times; });
  for (std::int64_t step = 1; step <= 4000; ++step)  // a hiccup of 30 steps' time in 10 steps
    EXPECT_EQ(quick.update(step, 1, step % 1000 == 500 ? 0.03 : 0.001), std::nullopt) << step;
}

TEST(SpeedWatch, ReadsTheTimesOfThisProcess) {
  const ProcessorTimes before = processor_times();
  EXPECT_GT(before.own, 0);
  EXPECT_GE(before.busy, before.own - 0.1);
}

}  // namespace
}  // namespace nystrom
