// The pseudo-inverse on tensor cores, forward and backward, compared with the CPU's f64 kernel on
// the same numbers.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  std::int64_t batch, m, iterations;
  PinvScale scale = PinvScale::per_matrix;
  /// Scale of the softmax. At 0.05 the matrix has almost rank one, as at the start of training.
  double sharpness = 2;
};

const Case cases[] = {
    {"of_32", 3, 32, 6},
    {"of_32_nearly_of_rank_one", 2, 32, 6, PinvScale::per_matrix, 0.05},
    {"of_32_scaled_as_one_batch", 3, 32, 4, PinvScale::whole_batch},
    {"of_32_without_iterations", 2, 32, 0},
    {"of_64", 2, 64, 6},
    {"of_128", 2, 128, 2},
    {"of_128_scaled_as_one_batch", 1, 128, 0, PinvScale::whole_batch},
};

struct Results {
  Tensor z, da;
};

/// The softmax of random scores rounded to f32. The gradient of the output is random too.
Results run(const Case& c, DType dtype, Device device) {
  const Tensor scores = random_normal({c.batch, c.m, c.m}, 1, c.sharpness);
  const Tensor a = softmax(scores).value().cast(DType::f32).cast(dtype).to(device);
  const Tensor dz = random_normal({c.batch, c.m, c.m}, 2).cast(DType::f32).cast(dtype).to(device);
  Results r{Tensor::empty({c.iterations + 1, c.batch, c.m, c.m}, dtype, device),
            Tensor::empty(a.shape(), dtype, device)};
  kernels::pseudo_inverse_iterative(a, c.scale, r.z);
  kernels::pseudo_inverse_iterative_grad(a, c.scale, r.z, dz, r.da);
  return r;
}

class FusedPseudoInverseTest : public GpuTest<::testing::TestWithParam<Case>> {};

/// TF32 alone would give errors of 1e-3. Its gradient would have errors of 1e-1 for matrices of
/// almost rank one.
TEST_P(FusedPseudoInverseTest, IsAsGoodAsTheCpusF32) {
  const Case& c = GetParam();
  const Results got = run(c, DType::f32, gpu), cpu = run(c, DType::f32, cpu_device),
                exact = run(c, DType::f64, cpu_device);
  EXPECT_LE(relative_difference(got.z, exact.z), 1e-6 + 4 * relative_difference(cpu.z, exact.z))
      << "z";
  EXPECT_LE(relative_difference(got.da, exact.da), 1e-6 + 4 * relative_difference(cpu.da, exact.da))
      << "da";
}

class FusedPseudoInverseOrderTest : public GpuTest<> {};

TEST_F(FusedPseudoInverseOrderTest, TwoRunsGiveEqualBits) {
  const Results first = run(cases[0], DType::f32, gpu);
  run_threads_backward();
  const Results second = run(cases[0], DType::f32, gpu);
  EXPECT_EQ(first.z.to_doubles(), second.z.to_doubles());
  EXPECT_EQ(first.da.to_doubles(), second.da.to_doubles());
}

INSTANTIATE_TEST_SUITE_P(Cases, FusedPseudoInverseTest, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace nystrom::testing
