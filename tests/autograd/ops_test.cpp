// Runs all checks of the cases in tests/support/cases.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/allocator.h"
#include "core/check.h"
#include "core/dispatch.h"
#include "tests/support/cases.h"
#include "tests/support/gradcheck.h"

namespace nystrom::testing {
namespace {

class OpTest : public ::testing::TestWithParam<OpCase> {
 protected:
  void TearDown() override { limit_cpu_level(best_cpu_level); }
};

TEST_P(OpTest, GradientEqualsNumericalOne) {
  const auto& test = GetParam();
  const auto inputs = case_inputs(test);
  const auto analytic = evaluate(test, inputs, DType::f64);
  const Tensor weights = random_normal(analytic.output.shape(), 5);
  const auto loss = [&] {
    const NoGrad no_recording;
    return inner_product(test.f({inputs.begin(), inputs.end()}).value(), weights);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor numerical = numerical_gradient(loss, inputs[i]);
    EXPECT_LE(relative_difference(analytic.gradients[i], numerical), test.tolerance)
        << "input " << i;
  }
}

/// Checks f in `dtype` against f64 at the current vector level.
void expect_close_to_f64(const OpCase& test, DType dtype, double tolerance) {
  const auto inputs = case_inputs(test);
  const auto expected = evaluate(test, inputs, DType::f64);
  const auto got = evaluate(test, inputs, dtype);
  EXPECT_LE(relative_difference(got.output, expected.output), tolerance) << "output";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LE(relative_difference(got.gradients[i], expected.gradients[i]), tolerance)
        << "gradient of input " << i;
  }
}

TEST_P(OpTest, F32EqualsF64AtEveryVectorLevel) {
  for (const CpuLevel level : {CpuLevel::baseline, CpuLevel::avx2, CpuLevel::avx512}) {
    limit_cpu_level(best_cpu_level);
    limit_cpu_level(level);
    SCOPED_TRACE(name_of(level));
    // An inverse amplifies rounding errors. Its cases are well conditioned, yet lose two digits.
    expect_close_to_f64(GetParam(), DType::f32, GetParam().name.starts_with("pinv") ? 2e-3 : 1e-5);
  }
}

TEST_P(OpTest, Bf16EqualsF64UpToItsRounding) {
  if (!GetParam().low_precision) return;
  expect_close_to_f64(GetParam(), DType::bf16, 2e-2);
}

TEST(RoundTo, RoundsAndPassesTheGradient) {
  for (const DType coarse : {DType::bf16, DType::f16}) {
    const Var x = Var::leaf(random_normal({3, 100}, 1).cast(DType::f32));
    const Tensor dy = random_normal({3, 100}, 2).cast(DType::f32);
    Tape tape;
    const Var y = round_to(x, coarse);
    EXPECT_EQ(y.dtype(), DType::f32);
    EXPECT_EQ(y.value().to_doubles(), x.value().cast(coarse).to_doubles());
    tape.backward(y, dy);
    EXPECT_EQ(x.grad().to_doubles(), dy.to_doubles());
  }
}

TEST(DropoutOp, DropsInTheValueAndInTheGradient) {
  const Var x = Var::leaf(Tensor::full({2, 500}, 1, DType::f64));
  Tape tape;
  const Var y = dropout(x, 0.5, {1, 2, 3}, int_tensor({0, 1}, {2}));
  tape.backward(sum(y));
  const auto value = y.value().to_doubles();
  EXPECT_NEAR(static_cast<double>(std::count(value.begin(), value.end(), 0.0)), 500, 100);
  EXPECT_EQ(x.grad().to_doubles(), value);
}

TEST(Linear, TakesAVector) {
  EXPECT_EQ(linear(random_normal({5}, 1), random_normal({3, 5}, 2)).shape(), Shape{3});
}

TEST(LinearOfData, EqualsLinearOfTheConvertedData) {
  const Tensor numbers = random_normal({5, 500, 1024}, 1);  // rows of three blocks
  for (const DType stored : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor data = numbers.cast(stored);
    for (const auto& [type, tolerance] : {std::pair(DType::f64, 1e-14), {DType::f32, 1e-6}}) {
      const OpCase whole{"", {}, [&](const Vars& v) {
                           return linear(Var(data.cast(type)), v[0], v.size() > 1 ? v[1] : Var());
                         }};
      const OpCase blocks{"", {}, [&](const Vars& v) {
                            return linear_of_data(data, v[0], v.size() > 1 ? v[1] : Var());
                          }};
      std::vector<Tensor> parameters = {random_normal({6, 1024}, 2), random_normal({6}, 3)};
      for (; !parameters.empty(); parameters.pop_back()) {
        SCOPED_TRACE(fmt::format("{} {} {}", stored, type, parameters.size()));
        const auto expected = evaluate(whole, parameters, type),
                   got = evaluate(blocks, parameters, type);
        EXPECT_LE(relative_difference(got.output, expected.output), tolerance);
        for (std::size_t i = 0; i < parameters.size(); ++i)
          EXPECT_LE(relative_difference(got.gradients[i], expected.gradients[i]), tolerance) << i;
      }
    }
  }
}

TEST(FeedForward, OfManyRowsEqualsItsParts) {
  const std::vector<Tensor> inputs = {random_normal({5000, 3}, 1), random_normal({300, 3}, 2),
                                      random_normal({300}, 3), random_normal({2, 300}, 4),
                                      random_normal({2}, 5)};  // rows of two blocks
  const OpCase parts{
      "", {}, [](const Vars& v) { return linear(gelu_erf(linear(v[0], v[1], v[2])), v[3], v[4]); }};
  const OpCase whole{"", {}, [](const Vars& v) {
                       return feed_forward(Unary::gelu_erf, v[0], {v[1], v[2]}, {v[3], v[4]});
                     }};
  const auto expected = evaluate(parts, inputs, DType::f64),
             got = evaluate(whole, inputs, DType::f64);
  EXPECT_LE(relative_difference(got.output, expected.output), 1e-14);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_LE(relative_difference(got.gradients[i], expected.gradients[i]), 1e-13) << i;
  const Tensor constants =
      feed_forward(Unary::gelu_erf, inputs[0], {inputs[1], inputs[2]}, {inputs[3], inputs[4]})
          .value();
  EXPECT_EQ(constants.to_doubles(), got.output.to_doubles());
}

TEST(FeedForward, KeepsAnInputThatOthersRead) {
  const Var x = Var::leaf(random_normal({4, 6}, 1)), w = Var::leaf(random_normal({2, 3}, 2));
  const std::vector<double> before = x.value().to_doubles();
  Tape tape;
  tape.backward(sum(gated_linear(Unary::relu, x, w)));
  EXPECT_EQ(x.value().to_doubles(), before);
}

/// The weight's gradient is that of what the layer read, whatever the parameters are by then.
TEST(LayerNorm, IsReadAsItWasByLaterTapes) {
  const Tensor x = random_normal({5, 4}, 1);
  for (const bool constant : {true, false}) {
    SCOPED_TRACE(constant);
    Tensor values = Tensor::full({4}, 1, DType::f64);
    const Var gamma = constant ? Var(values) : Var::leaf(values), w = Var::leaf(x.slice(0, 0, 1));
    Tape first;
    const Var y = layer_norm(x, gamma, {}, 1e-5);
    if (!constant) first.backward(sum(y));
    kernels::fill(values, 3);
    Tape second;
    second.backward(sum(linear(y, w)));
    const Tensor expected = sum(y.detach(), 0).value();
    EXPECT_LE(relative_difference(w.grad().reshape({4}), expected), 1e-14);
  }
}

TEST(LayerNorm, IsNotKeptForLinearLayers) {
  const Var x = Var::leaf(random_normal({1000, 64}, 1)), w = Var::leaf(random_normal({64, 64}, 2));
  const Var ones = Var::leaf(Tensor::full({64}, 1, DType::f64));
  const auto used = [] { return Arena::of(cpu_device).statistics().in_use_bytes; };
  Tape tape;
  const std::int64_t before = used();
  const Var y = linear(layer_norm(x, ones, {}, 1e-5), w);
  EXPECT_LT(used() - before, 1000 * 64 * 8 * 3 / 2);
  tape.backward(sum(y));
}

TEST(LayerNorm, TakesAVector) {
  const Tensor ones = Tensor::full({4}, 1, DType::f64);
  EXPECT_EQ(layer_norm(random_normal({4}, 1), ones, ones, 1e-5).shape(), Shape{4});
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, ::testing::ValuesIn(op_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace nystrom::testing
