#include "train/plan/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace nystrom {
namespace {

BenchOptions tiny(std::int64_t length) {
  BenchOptions options;
  options.layers = 1, options.hidden = 8, options.heads = 2, options.landmarks = 2,
  options.length = length, options.batch = 4;
  options.vocab = 50, options.conv = 3, options.steps = 1;
  return options;
}

/// Weights of another scale would give other losses and times than a model in training.
TEST(Bench, BeginsAtTheLossOfGuessing) {
  EXPECT_NEAR(run_bench(tiny(8)).losses.at(0), std::log(50), 0.1);
}

TEST(Bench, MeasuresTheSemanticsOfTransformersAtAnyLength) {
  BenchOptions options = tiny(8);
  options.overrides = {"model.attention.semantics=transformers"};
  EXPECT_NO_THROW(run_bench(options));
}

TEST(Bench, NamesTheSlowestKernelsFirst) {
  BenchOptions options = tiny(8);
  options.profile = true;
  const auto kernels = run_bench(options).kernels;
  EXPECT_GT(kernels.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(kernels, std::greater{}, &BenchResult::KernelTime::seconds));
}

TEST(Bench, TheMemoryOfALengthIsItsOwn) {
  const std::int64_t alone = run_bench(tiny(16)).peak_memory_bytes,
                     large = run_bench(tiny(1024)).peak_memory_bytes,
                     behind = run_bench(tiny(16)).peak_memory_bytes;
  EXPECT_GT(large, 10 * alone);
  EXPECT_LT(behind, 2 * alone);
}

}  // namespace
}  // namespace nystrom
