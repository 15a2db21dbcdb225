// f16 on the CPU, which supports only conversions.
#include <gtest/gtest.h>

#include <cmath>

#include "core/kernels.h"
#include "core/tensor.h"
#include "tests/support/errors.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

constexpr int infinity_bits = 0x7c00;

f16 half_of(int bits) { return std::bit_cast<f16>(static_cast<std::uint16_t>(bits)); }

/// The value of the bits of a positive number in IEEE 754. For infinity, the number after the
/// largest finite one.
double meaning_of(int bits) {
  const int exponent = bits >> 10, fraction = bits & 0x3ff;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

std::vector<f16> all_halves() {
  std::vector<f16> halves;
  for (int bits = 0; bits < 0x10000; ++bits) halves.push_back(half_of(bits));
  return halves;
}

/// A float and the bits of the nearest half.
struct Rounding {
  float value;
  int bits;
};

/// Every half, every midpoint between neighbours, and the floats next to these midpoints: all
/// places where rounding changes.
std::vector<Rounding> all_roundings() {
  std::vector<Rounding> cases;
  for (int bits = 0; bits < infinity_bits; ++bits) {
    const auto own = static_cast<float>(meaning_of(bits)),
               next = static_cast<float>(meaning_of(bits + 1));
    const float middle = own + (next - own) / 2;
    cases.push_back({own, bits});
    cases.push_back({std::nextafter(middle, 0.0f), bits});
    cases.push_back({middle, bits % 2 == 0 ? bits : bits + 1});
    cases.push_back({std::nextafter(middle, 1e9f), bits + 1});
  }
  cases.push_back({65536, infinity_bits});
  cases.push_back({3e38f, infinity_bits});
  cases.push_back({INFINITY, infinity_bits});
  cases.push_back({1e-45f, 0});
  for (std::size_t i = 0, positive = cases.size(); i < positive; ++i)
    cases.push_back({-cases[i].value, cases[i].bits | 0x8000});
  return cases;
}

TEST(F16, EveryBitPatternMeansItsNumber) {
  for (int bits = 0; bits < infinity_bits; ++bits) {
    ASSERT_EQ(static_cast<float>(half_of(bits)), meaning_of(bits)) << bits;
    ASSERT_EQ(static_cast<float>(half_of(bits | 0x8000)), -meaning_of(bits)) << bits;
    ASSERT_TRUE(std::signbit(static_cast<float>(half_of(bits | 0x8000)))) << bits;
  }
  EXPECT_EQ(static_cast<float>(half_of(infinity_bits)), INFINITY);
  EXPECT_EQ(static_cast<float>(half_of(infinity_bits | 0x8000)), -INFINITY);
  for (int bits = infinity_bits + 1; bits < 0x8000; ++bits)
    ASSERT_TRUE(std::isnan(static_cast<float>(half_of(bits)))) << bits;
}

TEST(F16, RoundsToNearestEven) {
  for (const auto& [value, bits] : all_roundings()) ASSERT_EQ(f16(value).bits, bits) << value;
}

TEST(F16, NanStaysNan) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffffffffu, 0xff801fffu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(f16(std::bit_cast<float>(bits))))) << bits;
  }
}

TEST(F16, EveryVectorLevelConvertsAlike) {
  const std::vector<f16> halves = all_halves();
  const Tensor all = Tensor::from(halves, {0x10000});
  std::vector<float> values;
  const std::vector<Rounding> roundings = all_roundings();
  for (const Rounding& rounding : roundings) values.push_back(rounding.value);
  const Tensor floats = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    const Tensor wide = all.cast(DType::f32), rounded = floats.cast(DType::f16);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const auto expected = static_cast<float>(halves[i]);
      ASSERT_TRUE(wide.data<float>()[i] == expected ||
                  (std::isnan(expected) && std::isnan(wide.data<float>()[i])))
          << name_of(level) << i;
    }
    for (std::size_t i = 0; i < roundings.size(); ++i)
      ASSERT_EQ(rounded.data<f16>()[i].bits, roundings[i].bits)
          << name_of(level) << ' ' << roundings[i].value;
  }
}

TEST(F16, TensorsAreFilledAndRead) {
  EXPECT_EQ(Tensor::full({2}, 0.1, DType::f16).to_doubles(),
            std::vector<double>(2, meaning_of(0x2e66)));
}

TEST(F16, TheCpuDoesNotComputeInIt) {
  Tensor x = Tensor::zeros({2, 3}, DType::f16);
  EXPECT_EQ(message_of([&] { kernels::softmax(x, x); }),
            "softmax: the CPU converts f16, but does not compute in it; cast to bf16 or f32");
  EXPECT_EQ(message_of([&] {
              kernels::matmul(x, x.transpose(0, 1), CView{}, Tensor::zeros({2, 2}, DType::f32),
                              false, Precision::full);
            }),
            "matmul: the CPU converts f16, but does not compute in it; cast to bf16 or f32");
  EXPECT_EQ(message_of([] { require_computable(DType::f16, cpu_device); }),
            "f16 is computed only on GPUs; use bf16 or f32, or --device cuda");
  EXPECT_EQ(message_of([] { require_computable(DType::bf16, cpu_device); }), "");
}

}  // namespace
}  // namespace nystrom::testing
