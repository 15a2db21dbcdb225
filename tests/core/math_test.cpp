#include "core/math.h"

#include <gtest/gtest.h>

#include <limits>

namespace nystrom::testing {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The largest relative error of f against g over [from, to].
template <class F, class G>
double worst_error(F f, G g, double from, double to) {
  double worst = 0;
  constexpr int points = 200000;
  for (int i = 0; i <= points; ++i) {
    const auto x = static_cast<float>(from + (to - from) * i / points);
    const double expected = g(static_cast<double>(x));
    if (expected != 0) worst = std::max(worst, std::abs(static_cast<double>(f(x)) / expected - 1));
  }
  return worst;
}

TEST(Math, ExpIsAccurate) {
  EXPECT_LT(worst_error([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); },
                        -87, 88),
            2e-7);
}

TEST(Math, TanhIsAccurate) {
  const auto f = [](float x) { return math::tanh(x); };
  const auto g = [](double x) { return std::tanh(x); };
  EXPECT_LT(worst_error(f, g, -1, 1), 5e-7);
  EXPECT_LT(worst_error(f, g, -20, 20), 5e-7);
  EXPECT_LT(worst_error(f, g, -1e-4, 1e-4), 2e-7);
}

TEST(Math, ErfcIsAccurate) {
  const auto f = [](float x) { return math::erfc(x); };
  const auto g = [](double x) { return std::erfc(x); };
  EXPECT_LT(worst_error(f, g, -4, 1), 5e-7);
  EXPECT_LT(worst_error(f, g, 1, 9), 2e-5) << "the tail, where rounding x² to float weighs most";
}

TEST(Math, ExpAtTheEdges) {
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_EQ(math::exp(-infinity), 0.0f);
  EXPECT_EQ(math::exp(-1e30f), 0.0f);
  EXPECT_EQ(math::exp(-87.4f), 0.0f);
  EXPECT_TRUE(std::isfinite(math::exp(infinity)) && math::exp(infinity) > 1e38f)
      << "clamped at e^88";
  EXPECT_EQ(math::exp(1e30f), math::exp(88.0f));
  EXPECT_TRUE(std::isnan(math::exp(nan)));
}

TEST(Math, TanhAtTheEdges) {
  EXPECT_EQ(math::tanh(infinity), 1.0f);
  EXPECT_EQ(math::tanh(-infinity), -1.0f);
  EXPECT_EQ(math::tanh(1e30f), 1.0f);
  EXPECT_TRUE(math::tanh(-0.0f) == 0 && std::signbit(math::tanh(-0.0f)));
  EXPECT_TRUE(std::isnan(math::tanh(nan)));
}

TEST(Math, ErfcAtTheEdges) {
  EXPECT_NEAR(math::erfc(0.0f), 1.0f, 2e-7);
  EXPECT_EQ(math::erfc(infinity), 0.0f);
  EXPECT_EQ(math::erfc(-infinity), 2.0f);
  EXPECT_EQ(math::erfc(1e30f), 0.0f);
  EXPECT_EQ(math::erfc(-1e30f), 2.0f);
  EXPECT_TRUE(std::isnan(math::erfc(nan)));
}

TEST(Math, GeluFarFromZeroIsTheInputOrNothing) {
  EXPECT_EQ(math::gelu_erf(50.0f), 50.0f);
  EXPECT_EQ(math::gelu_erf(-50.0f), 0.0f);
  EXPECT_EQ(math::silu(200.0f), 200.0f);
  EXPECT_EQ(math::silu(-200.0f), 0.0f);
  EXPECT_EQ(math::silu_slope(3e38f), 1.0f);
  EXPECT_EQ(math::silu_slope(-3e38f), 0.0f);
  EXPECT_EQ(math::gelu_tanh(50.0f), 50.0f);
  EXPECT_EQ(math::gelu_tanh(-50.0f), 0.0f);
  EXPECT_EQ(math::gelu_erf_slope(50.0f), 1.0f);
  EXPECT_EQ(math::gelu_tanh_slope(50.0f), 1.0f);
  EXPECT_EQ(math::gelu_tanh_slope(-50.0f), 0.0f);
}

}  // namespace
}  // namespace nystrom::testing
