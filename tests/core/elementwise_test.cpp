#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/kernels.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;
constexpr DType float_types[] = {DType::f32, DType::bf16, DType::f64};
constexpr DType converted_types[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

/// Shapes with axes that merge or do not merge, and with axes that are long, short, 1 or 0.
const std::vector<Shape> shapes{{},
                                {1},
                                {7},
                                {3, 5},
                                {1, 5, 1},
                                {2, 3, 4, 5},
                                {40000},
                                {3, 17000},
                                {130, 131},
                                {0, 3},
                                {2, 2, 2, 2, 2, 2, 2, 2}};

double rounded(double value, DType dtype) {
  if (dtype == DType::f64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::f32) return single;
  return dtype == DType::bf16 ? static_cast<float>(bf16(single)) : static_cast<float>(f16(single));
}

TEST(Copy, ConvertsBetweenAllStridesAndTypes) {
  for (const Shape& shape : shapes) {
    for (const DType from : converted_types) {
      for (const DType to : converted_types) {
        const Tensor x = scattered(shape, from, 1);
        Tensor y = scattered(shape, to, 2);
        kernels::copy(x, y);
        Values expected = elements(x);
        for (double& v : expected) v = rounded(v, to);
        ASSERT_EQ(elements(y), expected)
            << shape.to_string() << ' ' << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

TEST(Copy, MovesIntegersUnchanged) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const Tensor x = int_tensor({1, large, -3, 4, 5, -large}, {2, 3}).transpose(0, 1);
  const Tensor y = x.contiguous();
  const std::int64_t expected[] = {1, 4, large, 5, -3, -large};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.data<std::int64_t>()[i], expected[i]);
}

TEST(Copy, EveryVectorLevelRoundsToBf16Alike) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0xffff0000u; bits += 0x1357fu)
    values.push_back(std::bit_cast<float>(bits));
  const Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    const Tensor y = x.cast(DType::bf16);
    bool equal = true;
    for (std::size_t i = 0; i < values.size(); ++i)
      equal = equal && y.data<bf16>()[i].bits == bf16(values[i]).bits;
    EXPECT_TRUE(equal) << name_of(level);
  }
}

TEST(Fill, ReachesTheViewAndNothingElse) {
  for (const Shape& shape : shapes) {
    if (shape.rank() == max_rank) continue;
    Tensor whole = Tensor::zeros(shape.append(3), DType::f32);
    Tensor middle = whole.slice(-1, 1, 2);
    kernels::fill(middle, 2);
    const Values all = elements(whole);
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], i % 3 == 1 ? 2 : 0) << shape.to_string();
  }
}

TEST(Accumulate, AddsBetweenAllStridesAndTypes) {
  for (const Shape& shape : shapes) {
    for (const DType from : float_types) {
      for (const DType to : float_types) {
        const Tensor x = scattered(shape, from, 1);
        Tensor y = scattered(shape, to, 2);
        Values expected = elements(y);
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] += 0.5 * element(x, static_cast<std::int64_t>(i));
        kernels::accumulate(x, 0.5, y);
        const Values got = elements(y);
        const double tolerance = to == DType::f64 ? 1e-15 : to == DType::f32 ? 1e-6 : 0.01;
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i])))
              << shape.to_string() << ' ' << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

struct BroadcastCase {
  Shape a, b, y;
};
const std::vector<BroadcastCase> broadcasts{
    {{3, 5}, {3, 5}, {3, 5}},         {{3, 5}, {5}, {3, 5}},   {{5}, {3, 5}, {3, 5}},
    {{3, 1}, {1, 5}, {3, 5}},         {{}, {3, 5}, {3, 5}},    {{2, 1, 4}, {3, 1}, {2, 3, 4}},
    {{200, 1}, {1, 300}, {200, 300}}, {{40000}, {1}, {40000}}, {{0, 5}, {5}, {0, 5}},
};

TEST(Binary, EqualsANaiveLoopOverBroadcastStridedViews) {
  const auto apply = [](Binary op, double p, double q) {
    switch (op) {
      case Binary::add: return p + q;
      case Binary::subtract: return p - q;
      case Binary::multiply: return p * q;
      case Binary::divide: return p / q;
    }
    return 0.0;
  };
  for (const auto& [shape_a, shape_b, shape] : broadcasts) {
    for (const DType dtype : float_types) {
      for (const Binary op : {Binary::add, Binary::subtract, Binary::multiply, Binary::divide}) {
        const Tensor a = scattered(shape_a, dtype, 1), b = scattered(shape_b, dtype, 2);
        Tensor y = scattered(shape, dtype, 3);
        kernels::binary(op, a, b, y);
        const Tensor wide_a = a.expand(shape), wide_b = b.expand(shape);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
          const double expected = apply(op, element(wide_a, i), element(wide_b, i));
          ASSERT_NEAR(element(y, i), rounded(expected, dtype), 1e-6 * std::abs(expected))
              << shape.to_string() << ' ' << name_of(dtype);
        }
      }
    }
  }
}

TEST(Affine, MayWriteWhatItReads) {
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  kernels::affine(x, 2, -1, x);
  EXPECT_EQ(elements(x), (Values{1, 3, 5}));
}

}  // namespace
}  // namespace nystrom::testing
