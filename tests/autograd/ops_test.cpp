// Runs all checks of the cases in tests/support/cases.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
  expect_close(evaluate(test, inputs, dtype), evaluate(test, inputs, DType::f64), tolerance);
}

TEST_P(OpTest, F32EqualsF64AtEveryVectorLevel) {
  for (const CpuLevel level : {CpuLevel::baseline, CpuLevel::avx2, CpuLevel::avx512}) {
    limit_cpu_level(best_cpu_level);
    limit_cpu_level(level);
    SCOPED_TRACE(name_of(level));
    // An inverse amplifies rounding errors. Its cases are well conditioned, yet lose two digits.
    expect_close_to_f64(GetParam(), DType::f32,
                        std::string_view(GetParam().name).starts_with("pinv") ? 2e-3 : 1e-5);
  }
}

TEST_P(OpTest, Bf16EqualsF64UpToItsRounding) {
  if (!GetParam().low_precision) return;
  expect_close_to_f64(GetParam(), DType::bf16, 2e-2);
}

/// x with a NaN behind each of its elements.
Tensor with_gaps(const Tensor& x) {
  std::vector<double> values;
  for (const double value : x.to_doubles()) values.insert(values.end(), {value, NAN});
  const Tensor memory = Tensor::from(values, {std::ssize(values)}).cast(x.dtype());
  std::vector<std::int64_t> strides;
  for (int axis = 0; axis < x.rank(); ++axis) strides.push_back(2 * x.contiguous().stride(axis));
  const auto* data = memory.bytes() == 0 ? nullptr : CView(memory).data;
  return Tensor::borrow({std::make_shared<Tensor>(memory), const_cast<void*>(data)}, x.shape(),
                        strides, x.dtype(), Memory::borrowed);
}

TEST_P(OpTest, StridedInputsAreReadAsContiguousOnes) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    std::vector<Tensor> inputs, strided;
    for (const Tensor& input : case_inputs(GetParam())) {
      inputs.push_back(input.cast(dtype));
      strided.push_back(with_gaps(inputs.back()));
    }
    expect_close(evaluate(GetParam(), strided, dtype), evaluate(GetParam(), inputs, dtype),
                 dtype == DType::f64 ? 1e-12 : 1e-4);  // products add in other orders
  }
}

/// Index tensors may be strided too, as a column of a matrix is.
TEST(Ops, IndicesMayBeStrided) {
  const Tensor columns = int_tensor({0, 9, 2, 9, 1, 9}, {3, 2});
  const std::vector<std::int64_t> step{2};
  const Tensor index =
      Tensor::borrow({std::make_shared<Tensor>(columns), const_cast<void*>(CView(columns).data)},
                     {3}, step, DType::i64, Memory::borrowed);
  const Tensor plain = int_tensor({0, 2, 1}, {3}), x = random_normal({3, 4}, 1);
  const auto same = [](const Var& a, const Var& b) {
    EXPECT_EQ(a.value().to_doubles(), b.value().to_doubles());
  };
  same(cross_entropy(x, index), cross_entropy(x, plain));
  same(gather_rows(x, index), gather_rows(x, plain));
  same(embedding(x, index), embedding(x, plain));
  same(dropout(x, 0.5, {1, 2, 3}, index), dropout(x, 0.5, {1, 2, 3}, plain));
  const DropoutOptions a{0.5, {1, 2, 3}, index}, b{0.5, {1, 2, 3}, plain};
  const Tensor ones = Tensor::full({4}, 1, DType::f64);
  same(residual_dropout(x, x, a), residual_dropout(x, x, b));
  same(residual_layer_norm(x, x, a, ones, ones, 1e-5),
       residual_layer_norm(x, x, b, ones, ones, 1e-5));
}

TEST(Relu, KeepsNan) {
  const Var x = Var::leaf(Tensor::from(std::vector<double>{NAN, -1, 2}, {3}));
  Tape tape;
  const Var y = relu(x);
  tape.backward(sum(y));
  EXPECT_TRUE(std::isnan(y.value().to_doubles()[0]));
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{1, 0, 1}));
}

TEST(GeluTanh, HasTheSlopesOfItsEndsFarOut) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Var x =
        Var::leaf(Tensor::from(std::vector<double>{-1e30, -17, 17, 1e30}, {4}).cast(dtype));
    Tape tape;
    tape.backward(sum(gelu_tanh(x)));
    EXPECT_LE(max_difference(x.grad().to_doubles(), {0, 0, 1, 1}), 1e-12);
  }
}

TEST(Divide, ByANumberNearTheEndsOfItsType) {
  for (const double number : {1e-38, 3e38, -2e-31}) {
    const Tensor x = Tensor::full({1}, number, DType::f32);
    EXPECT_NEAR((Var(x) / x.item()).value().item(), 1, 1e-6) << number;
  }
}

TEST(Square, OfANumberWithoutAnAxis) {
  const Var x = Var::leaf(Tensor::from(std::vector<double>{1, 2}, {2}));
  Tape tape;
  tape.backward(square(sum(x, 0)));
  EXPECT_EQ(x.grad().to_doubles(), (std::vector<double>{6, 6}));
}

TEST(Sum, OfManyNumbersKeepsItsDigits) {
  const Tensor tenths = Tensor::full({10'000'000}, 0.1, DType::f32);
  // Without vectors, 1,024 numbers at a time are added one after another.
  EXPECT_NEAR(mean(tenths).value().item(), 0.1, 2e-6);
  EXPECT_NEAR(mean(tenths.reshape({5'000'000, 2}), 0).value().to_doubles()[1], 0.1, 2e-6);
}

TEST(CrossEntropy, AnIgnoredRowOfNanHasNoGradient) {
  const Var logits = Var::leaf(Tensor::from(std::vector<double>{NAN, 0, 0, 0, 1, 2}, {2, 3}));
  Tape tape;
  tape.backward(cross_entropy(logits, int_tensor({ignore_index, 1}, {2})));
  const std::vector<double> gradient = logits.grad().to_doubles();
  EXPECT_EQ(std::vector<double>(gradient.begin(), gradient.begin() + 3),
            (std::vector<double>{0, 0, 0}));
  EXPECT_NEAR(gradient[4], -0.755, 1e-3);
}

/// Z = Aᵀ / c of the identity, whose columns both sum to c = 1. All of dc goes to column 0, as in
/// the kernels for GPUs.
TEST(PseudoInverseIterative, IsScaledByTheFirstOfEqualColumns) {
  const Var a = Var::leaf(Tensor::from(std::vector<double>{1, 0, 0, 1}, {2, 2}));
  Tape tape;
  tape.backward(sum(pseudo_inverse_iterative(a, 0)));
  EXPECT_EQ(a.grad().to_doubles(), (std::vector<double>{-1, 1, -1, 1}));
}

TEST(PseudoInverseExact, OfNanIsNan) {
  const Tensor a = Tensor::from(std::vector<double>{NAN, 0, 0, 1}, {2, 2});
  for (const double value : pseudo_inverse_exact(a).value().to_doubles())
    EXPECT_TRUE(std::isnan(value));
}

/// Of rows without columns a linear layer gives its bias.
TEST(Linear, OfNoInputsIsTheBias) {
  const Tensor bias = random_normal({3}, 1);
  const Var y = linear(Tensor::zeros({2, 0}, DType::f64), Tensor::zeros({3, 0}, DType::f64), bias);
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.value().slice(0, 1, 2).to_doubles(), bias.to_doubles());
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
      const OpCase whole{"", {}, [&, type = type](const Vars& v) {
                           return linear(Var(data.cast(type)), v[0], v.size() > 1 ? v[1] : Var());
                         }};
      const OpCase blocks{"", {}, [&](const Vars& v) {
                            return linear_of_data(data, v[0], v.size() > 1 ? v[1] : Var());
                          }};
      std::vector<Tensor> parameters = {random_normal({6, 1024}, 2), random_normal({6}, 3)};
      for (; !parameters.empty(); parameters.pop_back()) {
        SCOPED_TRACE(fmt::format("{} {} {}", stored, type, parameters.size()));
        expect_close(evaluate(blocks, parameters, type), evaluate(whole, parameters, type),
                     tolerance);
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

TEST(LayerNorm, OfAConstantRowIsZero) {
  for (const double value : {0.1, 10.1, 1000.1, 100000.1}) {
    for (const std::int64_t width : {7, 768}) {
      const Tensor x = Tensor::full({2, width}, value, DType::f32),
                   ones = Tensor::full({width}, 1, DType::f32);
      EXPECT_LE(largest(layer_norm(x, ones, {}, 1e-12).value()), 1e-3) << value << ", " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTest, ::testing::ValuesIn(op_cases()), case_name);

}  // namespace
}  // namespace nystrom::testing
