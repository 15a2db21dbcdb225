// Exact attention through cuDNN, forward and backward, compared with the CPU's f64 kernel on the
// same rounded numbers.
#include "core/cuda/attention/attention_forms.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  std::int64_t samples, heads, length, width;
  double sharpness = 1;
};

const Case cases[] = {
    {"a_tile", 2, 3, 128, 64},     {"three_tiles", 2, 3, 384, 64},
    {"many_tiles", 2, 3, 512, 64}, {"narrow", 1, 2, 128, 32},
    {"wide", 1, 2, 256, 128},      {"width_of_no_own_kernel", 1, 2, 128, 80},
    {"sharp", 1, 2, 256, 64, 8},
};

/// [b, h, n, d] in the model's layout [b, n, h, d], with values that bf16 represents exactly.
Tensor heads_of(const Case& c, std::uint64_t seed, double scale = 1) {
  return random_normal({c.samples, c.length, c.heads, c.width}, seed, scale)
      .cast(DType::bf16)
      .cast(DType::f64);
}

struct Attention {
  Tensor q, k, v, dout, out, log_sum_exp, dq, dk, dv;
  double scale;

  Attention(const Case& c, DType dtype, Device device)
      : scale(1 / std::sqrt(static_cast<double>(c.width))) {
    const auto place = [&](const Tensor& x) { return x.cast(dtype).to(device).transpose(1, 2); };
    const auto like = [](const Tensor& x) {
      return Tensor::empty(x.transpose(1, 2).shape(), x.dtype(), x.device()).transpose(1, 2);
    };
    q = place(heads_of(c, 1, c.sharpness)), k = place(heads_of(c, 2)), v = place(heads_of(c, 3)),
    dout = place(heads_of(c, 4));
    out = like(q), dq = like(q), dk = like(k), dv = like(v);
    log_sum_exp = Tensor::empty({c.samples, c.heads, c.length}, accumulate_dtype(dtype), device);
  }
  void forward() {
    kernels::attention(q, k, v, Spans{}, Spans{}, Tensor{}, EmptyRows::zero, scale, out,
                       log_sum_exp);
  }
  void backward() {
    kernels::attention_grad(q, k, v, Spans{}, Spans{}, Tensor{}, EmptyRows::zero, scale, out,
                            log_sum_exp, dout, dq, dk, dv);
  }
  bool cudnn_forward() { return cuda::attention_cudnn(q, k, v, scale, out, log_sum_exp); }
  bool cudnn_backward() {
    return cuda::attention_cudnn_grad(q, k, v, scale, out, log_sum_exp, dout, dq, dk, dv);
  }
};

void expect_close(const Attention& got, const Attention& expected) {
  EXPECT_LE(relative_difference(got.out, expected.out), 1e-2) << "out";
  EXPECT_LE(max_difference(got.log_sum_exp, expected.log_sum_exp), 1e-3) << "log_sum_exp";
  EXPECT_LE(relative_difference(got.dq, expected.dq), 2e-2) << "dq";
  EXPECT_LE(relative_difference(got.dk, expected.dk), 2e-2) << "dk";
  EXPECT_LE(relative_difference(got.dv, expected.dv), 2e-2) << "dv";
}

/// Skipped without cuDNN, and on GPUs for which nystrom does not use it.
class CudnnAttentionTest : public GpuTest<::testing::TestWithParam<Case>> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!cuda::cudnn_state().usable) GTEST_SKIP() << cuda::cudnn_state().text;
    cudaDeviceProp properties{};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (properties.major > 9)
      GTEST_SKIP() << "own kernels take the place of cuDNN on compute capability "
                   << properties.major;
  }
};

TEST_P(CudnnAttentionTest, EqualsTheCpusF64) {
  Attention got(GetParam(), DType::bf16, gpu), expected(GetParam(), DType::f64, cpu_device);
  ASSERT_TRUE(got.cudnn_forward());
  ASSERT_TRUE(got.cudnn_backward());
  expected.forward();
  expected.backward();
  expect_close(got, expected);
}

TEST_P(CudnnAttentionTest, SharesItsLogSumExpWithTheOwnKernels) {
  Attention forward(GetParam(), DType::bf16, gpu), backward(GetParam(), DType::bf16, gpu),
      expected(GetParam(), DType::f64, cpu_device);
  ASSERT_TRUE(forward.cudnn_forward());
  forward.backward();  // not enough tokens for cuDNN
  backward.forward();
  ASSERT_TRUE(backward.cudnn_backward());
  expected.forward();
  expected.backward();
  expect_close(forward, expected);
  expect_close(backward, expected);
}

TEST_P(CudnnAttentionTest, TwoRunsGiveEqualBits) {
  Attention first(GetParam(), DType::bf16, gpu), second(GetParam(), DType::bf16, gpu);
  for (Attention* run : {&first, &second}) {
    ASSERT_TRUE(run->cudnn_forward());
    ASSERT_TRUE(run->cudnn_backward());
  }
  EXPECT_EQ(first.out.to_doubles(), second.out.to_doubles());
  EXPECT_EQ(first.dq.to_doubles(), second.dq.to_doubles());
  EXPECT_EQ(first.dk.to_doubles(), second.dk.to_doubles());
  EXPECT_EQ(first.dv.to_doubles(), second.dv.to_doubles());
}

/// Every score is near −100. For keys beyond the end of a tile, exp(0 − log_sum_exp) overflows.
TEST_P(CudnnAttentionTest, ScoresFarBelowZeroHaveFiniteGradients) {
  Attention run(GetParam(), DType::bf16, gpu);
  kernels::fill(run.q, 1);
  kernels::fill(run.k, -100 * std::sqrt(static_cast<double>(GetParam().width)) /
                           static_cast<double>(GetParam().width));
  ASSERT_TRUE(run.cudnn_forward());
  ASSERT_TRUE(run.cudnn_backward());
  for (const Tensor& gradient : {run.dq, run.dk, run.dv})
    for (const double value : gradient.to_doubles()) ASSERT_TRUE(std::isfinite(value));
}

/// Lengths whose backward pass would need more than 256 MiB. They are processed in groups of
/// samples or one head at a time.
class LongCudnnAttentionTest : public CudnnAttentionTest {};

TEST_P(LongCudnnAttentionTest, EqualsTheOwnKernels) {
  Attention got(GetParam(), DType::bf16, gpu), own(GetParam(), DType::bf16, gpu);
  ASSERT_TRUE(got.cudnn_forward());
  ASSERT_TRUE(got.cudnn_backward());
  const cuda::AttentionOperands operands{own.q, own.k, own.v,           {},
                                         {},    {},    EmptyRows::zero, own.scale};
  cuda::attention_fused(operands, {}, {}, own.out, own.log_sum_exp);
  cuda::attention_fused_grad(operands, own.out, own.log_sum_exp, own.dout, {}, {}, own.dq, own.dk,
                             own.dv, {});
  expect_close(got, own);
}

const Case long_cases[] = {{"samples", 3, 12, 4096, 64}, {"heads", 1, 5, 8192, 64}};
INSTANTIATE_TEST_SUITE_P(Long, LongCudnnAttentionTest, ::testing::ValuesIn(long_cases), case_name);

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttentionTest, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace nystrom::testing
