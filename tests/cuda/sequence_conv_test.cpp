// The convolution on tensor cores, forward and backward, compared with the CPU's f64 kernel on the
// same rounded numbers.
#include <gtest/gtest.h>

#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/errors.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  std::int64_t samples, length, heads, width, taps;
};

const Case cases[] = {
    {"usual", 2, 150, 2, 64, 33},
    {"narrow", 2, 130, 2, 32, 33},
    {"two_slices", 1, 140, 2, 128, 33},
    {"three_slices", 1, 70, 1, 96, 5},
    {"one_tap", 2, 20, 2, 32, 1},
    {"many_taps", 1, 150, 2, 32, 257},
    {"longer_than_the_sequence", 1, 9, 2, 32, 33},
    {"groups_end_even", 1, 140, 1, 32, 17},
};

struct Results {
  Tensor y, dx, dw;
};

/// x is a third of wider rows: one projection computes queries, keys and values together.
Results run(const Case& c, DType dtype, Device device) {
  const Shape shape{c.samples, c.heads, c.length, c.width};
  const Tensor x = half_normal({c.samples, c.length, 3 * c.heads, c.width}, 1)
                       .cast(dtype)
                       .to(device)
                       .slice(2, 2 * c.heads, 3 * c.heads)
                       .transpose(1, 2);
  const Tensor w = half_normal({c.heads, c.taps}, 2).cast(dtype).to(device),
               dy = half_normal(shape, 3).cast(dtype).to(device);
  Results r{Tensor::empty(shape, dtype, device), Tensor::empty(shape, dtype, device),
            Tensor::full({c.heads, c.taps}, 1, accumulate_dtype(dtype), device)};
  kernels::sequence_conv(x, w, Spans{}, CView{}, r.y);
  kernels::sequence_conv_grad(x, w, Spans{}, dy, CView{}, r.dx, r.dw);
  return r;
}

class FusedConvTest : public GpuTest<::testing::TestWithParam<std::tuple<Case, DType>>> {
 protected:
  Results on_gpu() const {
    return run(std::get<Case>(GetParam()), std::get<DType>(GetParam()), gpu);
  }
};

TEST_P(FusedConvTest, EqualsTheCpusF64) {
  const Results got = on_gpu(), exact = run(std::get<Case>(GetParam()), DType::f64, cpu_device);
  const double tolerance =
      std::get<DType>(GetParam()) == DType::bf16 ? 4e-3 : 5e-4;  // the result is rounded once
  EXPECT_LE(relative_difference(got.y, exact.y), tolerance) << "y";
  EXPECT_LE(relative_difference(got.dx, exact.dx), tolerance) << "dx";
  EXPECT_LE(relative_difference(got.dw, exact.dw), 1e-5) << "dw";
}

TEST_P(FusedConvTest, TwoRunsGiveEqualBits) {
  const Results first = on_gpu();
  run_threads_backward();
  const Results second = on_gpu();
  EXPECT_EQ(first.y.to_doubles(), second.y.to_doubles());
  EXPECT_EQ(first.dx.to_doubles(), second.dx.to_doubles());
  EXPECT_EQ(first.dw.to_doubles(), second.dw.to_doubles());
}

INSTANTIATE_TEST_SUITE_P(Cases, FusedConvTest,
                         ::testing::Combine(::testing::ValuesIn(cases),
                                            ::testing::Values(DType::bf16, DType::f16)),
                         case_and_type);

class ConvSizeTest : public GpuTest<> {};

TEST_F(ConvSizeTest, TooManyTapsAreNamed) {
  const Case long_filter{"", 1, 10, 1, 64, 6001};
  for (const DType dtype : {DType::f32, DType::f16}) {
    const std::string message = message_of([&] { run(long_filter, dtype, gpu); });
    EXPECT_TRUE(message.starts_with("a convolution of 6001 taps needs ")) << message;
    EXPECT_TRUE(
        message.ends_with("; lower model.attention.conv_kernel_size, or compute on the CPU"))
        << message;
  }
}

}  // namespace
}  // namespace nystrom::testing
