#include <gtest/gtest.h>

#include "core/kernels.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;

/// Dropout of ones, which is the mask divided by 1 − p.
Tensor masks(const Shape& shape, const std::vector<std::int64_t>& samples, double p = 0.3,
             DropoutKey key = {7, 3, 2}, DType dtype = DType::f32) {
  Tensor y = Tensor::full(shape, 1, dtype);
  kernels::dropout(y, int_tensor(samples, {static_cast<std::int64_t>(samples.size())}), key, p, y);
  return y;
}

Values row(const Tensor& x, std::int64_t index) { return elements(x.slice(0, index, index + 1)); }

TEST(Dropout, TheMaskFollowsTheSampleIntoAnotherRow) {
  const Tensor a = masks({3, 50, 7}, {4, 9, 1000000007}), b = masks({2, 50, 7}, {1000000007, 4});
  EXPECT_EQ(row(a, 0), row(b, 1));
  EXPECT_EQ(row(a, 2), row(b, 0));
}

TEST(Dropout, ALongerPaddedLengthKeepsTheMaskOfWhatWasThere) {
  const Tensor a = masks({2, 50, 7}, {4, 9}), b = masks({2, 83, 7}, {4, 9});
  EXPECT_EQ(elements(a), elements(b.slice(1, 0, 50)));
}

TEST(Dropout, MicroBatchesKeepTheMask) {
  const Tensor whole = masks({4, 33, 5}, {0, 1, 2, 3});
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(row(whole, i), elements(masks({1, 33, 5}, {i})));
}

TEST(Dropout, ChosenRowsKeepTheirMasks) {
  for (const std::int64_t width : {1, 7, 300}) {
    const Tensor whole = masks({2, 50, width}, {4, 9});
    Tensor chosen = Tensor::full({3, width}, 1, DType::f32);
    const Tensor rows = int_tensor({9, 0, 4, 33, 9, 49}, {3, 2});
    kernels::dropout(chosen, rows, {7, 3, 2}, 0.3, chosen);
    const Tensor expected = whole.reshape({100, width});
    EXPECT_EQ(row(chosen, 0), row(expected, 50));
    EXPECT_EQ(row(chosen, 1), row(expected, 33));
    EXPECT_EQ(row(chosen, 2), row(expected, 99));
  }
}

TEST(Dropout, TheMaskIsThatOfTheDefinition) {
  const DropoutKey key{7, 3, 2};
  const std::int64_t sample = (std::int64_t{5} << 32) + 11;
  const Values got = elements(masks({1, 203}, {sample}, 0.3, key));
  for (std::uint32_t e = 0; e < 203; ++e) {
    const auto words = philox(philox_key(key.seed, key.step), {{e / 4, 11, 5, key.site}});
    EXPECT_EQ(got[e] == 0, words.word[e % 4] < static_cast<std::uint32_t>(0.3 * 4294967296.0))
        << "element " << e;
  }
}

TEST(Dropout, EverySeedStepSiteAndSampleHasAMaskOfItsOwn) {
  const Values base = elements(masks({1, 100}, {4}, 0.5, {7, 3, 2}));
  EXPECT_NE(elements(masks({1, 100}, {4}, 0.5, {8, 3, 2})), base);
  EXPECT_NE(elements(masks({1, 100}, {4}, 0.5, {7, 4, 2})), base);
  EXPECT_NE(elements(masks({1, 100}, {4}, 0.5, {7, 3, 1})), base);
  EXPECT_NE(elements(masks({1, 100}, {5}, 0.5, {7, 3, 2})), base);
}

TEST(Dropout, KeepsTheShareItIsTold) {
  constexpr double n = 200000;
  for (const double p : {0.1, 0.5, 0.9}) {
    double kept = 0;
    for (const double v : elements(masks({2, 100000}, {1, 2}, p))) kept += v != 0;
    EXPECT_NEAR(kept / n, 1 - p, 4 * std::sqrt(p * (1 - p) / n)) << "p = " << p;
  }
}

TEST(Dropout, ScalesWhatItKeeps) {
  const Tensor x = random_normal({2, 300}, 1);
  Tensor y = empty_like(x);
  kernels::dropout(x, int_tensor({0, 1}, {2}), {1, 2, 3}, 0.25, y);
  for (std::int64_t i = 0; i < 600; ++i) {
    const double got = element(y, i), scaled = element(x, i) / 0.75;
    EXPECT_DOUBLE_EQ(got, got == 0 ? 0 : scaled);
  }
}

TEST(Dropout, EveryTypeAndVectorLevelHasTheSameMask) {
  const Values expected = elements(masks({2, 999}, {4, 9}, 0.5, {7, 3, 2}, DType::f64));
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      EXPECT_EQ(elements(masks({2, 999}, {4, 9}, 0.5, {7, 3, 2}, dtype)), expected)
          << name_of(level) << ' ' << name_of(dtype);
    }
  }
}

TEST(Dropout, NothingToDo) { EXPECT_EQ(masks({0, 5}, {}).numel(), 0); }

}  // namespace
}  // namespace nystrom::testing
