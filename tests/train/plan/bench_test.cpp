#include "train/plan/bench.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nystrom {
namespace {

/// Weights of another scale would give other losses and times than a model in training.
TEST(Bench, BeginsAtTheLossOfGuessing) {
  BenchOptions options;
  options.layers = 1, options.hidden = 8, options.heads = 2, options.landmarks = 2,
  options.length = 8, options.batch = 4;
  options.vocab = 50, options.conv = 3, options.steps = 1;
  EXPECT_NEAR(run_bench(options).losses.at(0), std::log(50), 0.1);
}

}  // namespace
}  // namespace nystrom
