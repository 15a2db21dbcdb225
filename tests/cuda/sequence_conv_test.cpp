// The convolution on tensor cores, forward and backward, against the CPU's f64 kernel on the same rounded numbers.
#include <gtest/gtest.h>

#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case {
  const char* name;
  std::int64_t samples, length, heads, width, taps;
  bool holes = false;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }  // NOLINT: GoogleTest's name

const Case cases[] = {
    {"usual", 2, 150, 2, 64, 33},
    {"narrow", 2, 130, 2, 32, 33},
    {"two_slices", 1, 140, 2, 128, 33},
    {"three_slices", 1, 70, 1, 96, 5},
    {"one_tap", 2, 20, 2, 32, 1},
    {"holes", 2, 150, 2, 64, 33, true},
    {"many_taps", 1, 150, 2, 32, 257, true},
    {"longer_than_the_sequence", 1, 9, 2, 32, 33},
    {"spans_end_even", 1, 140, 1, 32, 17},
};

Tensor rounded(const Shape& shape, std::uint64_t seed) { return random_normal(shape, seed).cast(DType::bf16).cast(DType::f64); }

struct Results {
  Tensor y, dx, dw;
};

/// x is a third of wider rows, as the values are of one projection to queries, keys and values.
Results run(const Case& c, DType dtype, Device device) {
  const Shape shape{c.samples, c.length, c.heads, c.width};
  const Tensor x = rounded({c.samples, c.length, 3 * c.heads, c.width}, 1).cast(dtype).to(device).slice(2, 2 * c.heads, 3 * c.heads);
  const Tensor w = rounded({c.heads, c.taps}, 2).cast(dtype).to(device), dy = rounded(shape, 3).cast(dtype).to(device);
  Tensor mask;
  if (c.holes) {
    std::vector<std::uint8_t> valid;
    for (std::int64_t i = 0; i < c.samples * c.length; ++i) valid.push_back(i % 3 != 1 && (i < 60 || i > 95));
    mask = Tensor::from(valid, {c.samples, c.length}).to(device);
  }
  Results r{Tensor::empty(shape, dtype, device), Tensor::empty(shape, dtype, device),
            Tensor::full({c.heads, c.taps}, 1, accumulate_dtype(dtype), device)};
  kernels::sequence_conv(x, w, mask, r.y);
  kernels::sequence_conv_grad(x, w, mask, dy, r.dx, r.dw);
  return r;
}

class FusedConvTest : public GpuTest<::testing::TestWithParam<Case>> {};

TEST_P(FusedConvTest, EqualsTheCpusF64) {
  const Results got = run(GetParam(), DType::bf16, gpu), exact = run(GetParam(), DType::f64, cpu_device);
  EXPECT_LE(relative_difference(got.y, exact.y), 4e-3) << "y";  // bf16 rounds the result once
  EXPECT_LE(relative_difference(got.dx, exact.dx), 4e-3) << "dx";
  EXPECT_LE(relative_difference(got.dw, exact.dw), 1e-5) << "dw";
}

TEST_P(FusedConvTest, TwoRunsGiveEqualBits) {
  const Results first = run(GetParam(), DType::bf16, gpu);
  run_threads_backward();
  const Results second = run(GetParam(), DType::bf16, gpu);
  EXPECT_EQ(first.y.to_doubles(), second.y.to_doubles());
  EXPECT_EQ(first.dx.to_doubles(), second.dx.to_doubles());
  EXPECT_EQ(first.dw.to_doubles(), second.dw.to_doubles());
}

INSTANTIATE_TEST_SUITE_P(Cases, FusedConvTest, ::testing::ValuesIn(cases), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace nystrom::testing
