// GELU in 16 bits over all numbers of the type, compared with f64: the hardware's approximations
// must disappear in the result's rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  Unary op;
  DType dtype;
  int digits;       ///< the type's binary digits
  double smallest;  ///< below it the type or the GPU loses digits
};

const Case cases[] = {
    {"gelu_tanh_bf16", Unary::gelu_tanh, DType::bf16, 8, 0x1p-120},
    {"gelu_erf_bf16", Unary::gelu_erf, DType::bf16, 8, 0x1p-120},
    {"gelu_tanh_f16", Unary::gelu_tanh, DType::f16, 11, 0x1p-14},
    {"gelu_erf_f16", Unary::gelu_erf, DType::f16, 11, 0x1p-14},
};

/// All finite numbers of the type, below 2¹⁵, where the slope times 1 is in range.
std::vector<double> all_numbers(DType dtype) {
  std::vector<double> numbers;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double x = dtype == DType::bf16
                         ? static_cast<double>(static_cast<float>(std::bit_cast<bf16>(half)))
                         : static_cast<double>(static_cast<float>(std::bit_cast<f16>(half)));
    if (std::isfinite(x)) numbers.push_back(x);
  }
  while (numbers.size() % 16 != 0) numbers.push_back(0);
  return numbers;
}

class CudaGeluTest : public GpuTest<::testing::TestWithParam<Case>> {};

/// `exact` rounded to the type may be off by half a step; the approximations add a 32nd of it.
void expect_rounded(const std::vector<double>& x, const Tensor& got, const Tensor& exact,
                    const Case& c, double smallest, const char* what) {
  const auto y = got.to_doubles(), expected = exact.to_doubles();
  int shown = 0;
  for (std::size_t i = 0; i < x.size() && shown < 5; ++i) {
    const double half_step = std::ldexp(1, std::ilogb(expected[i]) - c.digits);
    const double allowed = (expected[i] == 0 ? 0 : half_step * (1 + 1.0 / 32)) + smallest;
    if (std::abs(y[i] - expected[i]) <= allowed) continue;
    ADD_FAILURE() << what << " at " << x[i] << " is " << y[i] << ", expected " << expected[i];
    ++shown;
  }
}

TEST_P(CudaGeluTest, IsExactUpToTheRounding) {
  const Case& c = GetParam();
  const std::vector<double> x = all_numbers(c.dtype);
  const Shape shape{16, std::ssize(x) / 16};
  const Tensor exact_x = Tensor::from(x, shape), ones = Tensor::full(shape, 1, DType::f64);
  Tensor value = empty_like(exact_x), slope = empty_like(exact_x);
  kernels::unary(c.op, exact_x, value);
  kernels::unary_grad(c.op, exact_x, ones, slope, View{}, View{});
  const Tensor on_gpu = exact_x.cast(c.dtype).to(gpu), dy = ones.cast(c.dtype).to(gpu);
  Tensor y = empty_like(on_gpu), dx = empty_like(on_gpu), again = empty_like(on_gpu),
         sums = Tensor::empty({shape[1]}, DType::f32, gpu);
  kernels::unary(c.op, on_gpu, y);
  kernels::unary_grad(c.op, on_gpu, dy, dx, again, sums);
  EXPECT_EQ(again.to_doubles(), y.to_doubles());
  expect_rounded(x, y, value, c, c.smallest, "the value");
  expect_rounded(x, dx, slope, c, std::max(c.smallest, 0x1p-20), "the slope");
  Tensor expected_sums = Tensor::empty({1, shape[1]}, DType::f64);
  kernels::sum_middle(dx.to(cpu_device).cast(DType::f64).reshape({1, 16, shape[1]}), expected_sums,
                      false);
  EXPECT_LE(relative_difference(sums, expected_sums.reshape({shape[1]})), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaGeluTest, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace nystrom::testing
