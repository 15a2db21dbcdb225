// Rounding to 8 bits, against the integer arithmetic that ONNX's operators describe.
#include "core/int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/rng.h"

namespace nystrom::testing {
namespace {

std::vector<float> numbers(std::int64_t count, std::uint64_t seed, float scale) {
  std::vector<float> result;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto word = philox(philox_key(seed, 7), {{i, 0, 0, 0}}).word[0];
    result.push_back(scale * (static_cast<float>(uniform_open(word)) - 0.4F));
  }
  return result;
}

TEST(Int8Test, AProductOfRoundedFactorsIsThatOfIntegers) {
  const std::int64_t rows = 5, width = 37, columns = 3;
  const std::vector<float> x = numbers(rows * width, 1, 3), w = numbers(columns * width, 2, 0.1F);
  const Int8Rows weight = to_int8_rows(Tensor::from(w, {columns, width}));
  const Tensor rounded_x = round_to_uint8(Tensor::from(x, {rows, width})),
               rounded_w = weight.matrix();
  // DynamicQuantizeLinear: scale and zero point of the whole tensor.
  const float least = *std::ranges::min_element(x), greatest = *std::ranges::max_element(x);
  const float scale = (greatest - least) / 255;
  const int zero = static_cast<int>(std::nearbyint(-least / scale));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      int sum = 0;  // MatMulInteger
      double product = 0;
      for (std::int64_t k = 0; k < width; ++k) {
        const int q =
            std::clamp(static_cast<int>(std::nearbyint(x[i * width + k] / scale)) + zero, 0, 255);
        sum += (q - zero) * weight.values[static_cast<std::size_t>(j * width + k)];
        product += static_cast<double>(rounded_x.data<float>()[i * width + k]) *
                   static_cast<double>(rounded_w.data<float>()[j * width + k]);
      }
      const double expected =
          sum * static_cast<double>(scale) * static_cast<double>(weight.scales.data<float>()[j]);
      EXPECT_NEAR(product, expected, 1e-6);
    }
  }
}

TEST(Int8Test, ZeroStaysZero) {
  const Tensor x = round_to_uint8(Tensor::from(std::vector{0.0F, 0.3F, 5.1F, -2.0F}, {4}));
  EXPECT_EQ(x.data<float>()[0], 0);
  EXPECT_NE(x.data<float>()[1], 0.3F);
  EXPECT_NEAR(x.data<float>()[1], 0.3F, 7.1F / 255 / 2);
  EXPECT_EQ(round_to_uint8(Tensor::zeros({2}, DType::f32)).to_doubles(), (std::vector{0.0, 0.0}));
  EXPECT_EQ(to_int8_rows(Tensor::zeros({1, 2}, DType::f32)).matrix().to_doubles(),
            (std::vector{0.0, 0.0}));
}

/// Halves are rounded to even: 253.5 to 254, and the zero point 1.5 to 2, 256 steps in all.
TEST(Int8Test, TheLastStepIs255) {
  EXPECT_EQ(round_to_uint8(Tensor::from(std::vector{-1.5F, 253.5F}, {2})).to_doubles(),
            (std::vector{-2.0, 253.0}));
}

TEST(Int8Test, ARowBelowTheNormalNumbersIsZeros) {
  const Int8Rows rows = to_int8_rows(Tensor::from(std::vector<float>{1e-44F, -1e-44F}, {1, 2}));
  EXPECT_EQ(rows.values, (std::vector<std::int8_t>{0, 0}));
  EXPECT_EQ(rows.scales.item(), 1);
}

TEST(Int8Test, PositiveNumbersUseAllSteps) {
  std::vector<float> steps;
  for (int i = 0; i < 256; ++i) steps.push_back(static_cast<float>(i));
  const Tensor x = Tensor::from(steps, {256});
  EXPECT_EQ(round_to_uint8(x).to_doubles(), x.to_doubles());
}

}  // namespace
}  // namespace nystrom::testing
