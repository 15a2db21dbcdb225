// Cases of single kernels that the table of ops does not cover.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "autograd/ops.h"
#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/many_lengths.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

class CudaKernelTest : public GpuTest<> {};

TEST_F(CudaKernelTest, ScatterAddsRunsLongerThanItsPieces) {
  // Runs that start in, end in, lie inside or span pieces of 64 entries, and rows without a target.
  std::vector<std::int64_t> index;
  for (const auto& [target, count] : std::vector<std::pair<int, int>>{
           {3, 10}, {0, 1300}, {5, 64}, {1, 1}, {-1, 70}, {2, 129}, {4, 200}})
    index.insert(index.end(), static_cast<std::size_t>(count), target);
  const auto rows = static_cast<std::int64_t>(index.size());
  const Tensor x = random_normal({rows, 5}, 1), where = Tensor::from(index, {rows});
  for (const std::int64_t skip : {-1, 4}) {
    Tensor expected = random_normal({6, 5}, 2), y = expected.clone().to(gpu);
    kernels::scatter_add_rows(x, where, skip, expected);
    kernels::scatter_add_rows(x.to(gpu), where.to(gpu), skip, y);
    EXPECT_LE(relative_difference(y, expected), 1e-12) << "skip " << skip;
  }
}

TEST_F(CudaKernelTest, ANanMatrixSpoilsItsOwnInverseAlone) {
  for (const auto& [m, dtype] :
       {std::pair{4, DType::f64}, {32, DType::f32}}) {  // the plain and the fused implementation
    for (const PinvScale scale : {PinvScale::per_matrix, PinvScale::whole_batch}) {
      Tensor a = Tensor::full({3, m, m}, 1.0 / m, DType::f64);
      a.data<double>()[m * m + 5] = NAN;
      const Tensor on_gpu = a.cast(dtype).to(gpu);
      Tensor z = Tensor::zeros({3, 3, m, m}, dtype, gpu),
             guarded = Tensor::full({5, m, m}, 7, dtype, gpu);
      Tensor da = guarded.slice(0, 1, 4);
      kernels::pseudo_inverse_iterative(on_gpu, scale, z);
      kernels::pseudo_inverse_iterative_grad(on_gpu, scale, z,
                                             Tensor::full({3, m, m}, 1, dtype, gpu), da);
      const auto values = guarded.to_doubles();
      for (int i = 0; i < m * m; ++i) {
        ASSERT_EQ(values[static_cast<std::size_t>(i)], 7);
        ASSERT_EQ(values[static_cast<std::size_t>(4 * m * m + i)], 7);
        ASSERT_TRUE(std::isnan(values[static_cast<std::size_t>(2 * m * m + i)]))
            << "m " << m << " at " << i;
      }
    }
  }
}

TEST_F(CudaKernelTest, ManyLengthsReserveLittleMoreThanTheLargestNeeds) {
  EXPECT_LE(reserved_for_many_lengths(gpu), 1.3);
}

/// Batches of texts have another number of rows at each step.
TEST_F(CudaKernelTest, NearNumbersOfRowsShareTheirChoiceOfAnAlgorithm) {
  const Tensor weight = random_normal({40, 24}, 1).cast(DType::f32);
  const auto products = cuda::products().size();
  for (std::int64_t rows = 290; rows < 352; ++rows) {
    const Tensor x = random_normal({rows, 40}, 2).cast(DType::f32);
    const auto results = [&](Device device) {
      const Var on_device = Var::leaf(x.to(device)), w = Var::leaf(weight.to(device));
      Tape tape;
      const Var y = matmul(on_device, w);
      tape.backward(sum(y));
      return std::array{y.value(), on_device.grad(), w.grad()};
    };
    const auto got = results(gpu), expected = results(cpu_device);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(relative_difference(got[i], expected[i]), 1e-5) << rows << " rows, " << i;
  }
  EXPECT_LE(cuda::products().size(), products + 6) << "of two sizes, three products each";
}

/// The scores of padding are below the range of f16.
TEST_F(CudaKernelTest, ScoresOfMinusInfinityWeighNothing) {
  const std::vector<float> scores{1, -1e9f, 2, -1e9f};
  const auto run = [&](DType dtype) {
    const Var x = Var::leaf(Tensor::from(scores, {1, 4}).cast(dtype).to(gpu));
    Tape tape;
    const Var loss = cross_entropy(x, int_tensor({2}, {1}));
    tape.backward(loss);
    return std::pair(loss.value().item(), x.grad().to_doubles());
  };
  const auto [loss, gradient] = run(DType::f16);
  const auto [expected_loss, expected_gradient] = run(DType::f32);
  EXPECT_NEAR(loss, expected_loss, 1e-6);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(gradient[i], expected_gradient[i], 1e-3) << i;
}

/// Rows of one warp, and of a block with several tiles.
TEST_F(CudaKernelTest, DrawsTheSameTokensAsTheCpu) {
  for (const std::int64_t n : {7, 1000, 2049, 4100}) {
    const Tensor logits = random_normal({40, n}, 1, 3);
    std::vector<double> shares;
    for (int i = 0; i < 40; ++i) shares.push_back((i + 0.5) / 40);
    const Tensor uniform = Tensor::from(shares, {40});
    Tensor expected = Tensor::empty({40}, DType::i64), got = Tensor::empty({40}, DType::i64, gpu);
    kernels::sample_rows(logits, uniform, expected);
    kernels::sample_rows(logits.to(gpu), uniform.to(gpu), got);
    EXPECT_EQ(got.to_doubles(), expected.to_doubles()) << n;
  }
}

/// Rows of one warp and of a block, read one by one and four at a time, with ties and a row without
/// a finite number of more than one kind.
TEST_F(CudaKernelTest, CrossEntropyFindsTheFirstLargestToo) {
  for (const std::int64_t n : {7, 1000, 2049, 4100}) {
    Tensor logits = random_normal({5, n}, 1, 3).cast(DType::f32);
    float* x = logits.data<float>();
    x[2] = x[n - 1] = 50;                                    // a tie in row 0
    for (std::int64_t i = 0; i < n; ++i) x[n + i] = -40.5f;  // row 1 is constant
    const Tensor labels = int_tensor({0, 3, -100, n - 1, 5}, {5}), on_gpu = logits.to(gpu);
    Tensor loss = Tensor::empty({5}, DType::f32, gpu), sum = Tensor::empty({5}, DType::f64, gpu),
           argmax = Tensor::empty({5}, DType::i64, gpu);
    kernels::cross_entropy(on_gpu, labels.to(gpu), 0.01, loss, sum, argmax);
    Tensor exact = Tensor::empty({5}, DType::f64), exact_sum = empty_like(exact),
           first = Tensor::empty({5}, DType::i64);
    kernels::cross_entropy(logits.cast(DType::f64), labels, 0.01, exact, exact_sum, first);
    EXPECT_LE(relative_difference(loss, exact), 1e-6) << n;
    EXPECT_LE(relative_difference(sum, exact_sum), 1e-6) << n;
    EXPECT_EQ(argmax.to_doubles(), first.to_doubles()) << n;
    EXPECT_EQ(first.to_doubles()[0], 2);
    EXPECT_EQ(first.to_doubles()[1], 0);
  }
}

/// A million is added to logits that are multiples of 1/16, so that f32 holds the sums.
TEST_F(CudaKernelTest, CrossEntropyKeepsItsDigitsBesideAnOffset) {
  const auto of = [](double offset, DType dtype, Device device) {
    std::vector<double> logits;
    for (int i = 0; i < 21; ++i) logits.push_back(offset + (i * i % 37) / 16.0);
    const Tensor x = Tensor::from(logits, {3, 7}).cast(dtype).to(device);
    const Tensor labels = int_tensor({2, 0, 6}, {3}).to(device);
    Tensor loss = Tensor::empty({3}, dtype, device), sum = Tensor::empty({3}, DType::f64, device),
           dx = empty_like(x);
    kernels::cross_entropy(x, labels, 0, loss, sum, View{});
    kernels::cross_entropy_grad(x, labels, 0, sum, Tensor::full({3}, 1, dtype, device), dx);
    return std::pair{loss, dx};
  };
  const auto [loss, dx] = of(0, DType::f64, cpu_device);
  for (const Device device : {cpu_device, gpu}) {
    const auto [far, far_dx] = of(1e6, DType::f32, device);
    EXPECT_LE(relative_difference(far, loss), 1e-6) << (device == gpu);
    EXPECT_LE(relative_difference(far_dx, dx), 1e-6) << (device == gpu);
  }
}

/// Segments that end within a pack of four numbers, more than one in a pack.
TEST_F(CudaKernelTest, AdamwKeepsToItsSegments) {
  const std::vector<std::int64_t> ends{3, 5, 6, 6, 17, 64};
  const std::vector<double> decays{0, 0.1, 0.05, 0.9, 0.2, 0.025};
  const auto run = [&](std::int64_t count, DType dtype, Device device) {
    std::vector<std::int64_t> own = ends;
    own.back() = count;
    const auto make = [&](std::uint64_t seed) {
      return random_normal({count}, seed).cast(DType::f32).cast(dtype).to(device);
    };
    Tensor p = make(1), m = make(2), v = Tensor::full({count}, 0.5, dtype, device),
           low = Tensor::empty({count}, DType::bf16, device);
    kernels::adamw(p, make(3), m, v, low, Tensor::from(own, {6}).to(device),
                   Tensor::from(decays, {6}).to(device), {1e-2, 0.9, 0.99, 1e-8, 0.5, 0.7, 0.3});
    return std::vector<Tensor>{p, m, v, low};
  };
  for (const std::int64_t count : {64, 61}) {  // four at a time, and one by one
    const auto got = run(count, DType::f32, gpu), expected = run(count, DType::f64, cpu_device);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(relative_difference(got[i], expected[i]), i == 3 ? 4e-3 : 1e-6)
          << count << ' ' << i;
  }
}

TEST_F(CudaKernelTest, Tf32ProductsRoundTheirOperands) {
  const Tensor a = random_normal({33, 70}, 1), b = random_normal({70, 17}, 2);
  Tensor exact = Tensor::empty({33, 17}, DType::f64), c = Tensor::empty({33, 17}, DType::f32, gpu);
  kernels::matmul(a, b, CView{}, exact, false, Precision::full);
  const Tensor low_a = a.cast(DType::f32).to(gpu), low_b = b.cast(DType::f32).to(gpu);
  kernels::matmul(low_a, low_b, CView{}, c, false, Precision::full);
  EXPECT_LE(relative_difference(c, exact), 1e-6);
  kernels::matmul(low_a, low_b, CView{}, c, false, Precision::tf32);
  EXPECT_LE(relative_difference(c, exact), 2e-3);
}

TEST_F(CudaKernelTest, BitSumsAreTheCpus) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const std::int64_t n : {0, 1, 300, 50001}) {
      const Tensor x = random_normal({n}, 1).cast(dtype);
      Tensor expected = Tensor::empty({1}, DType::i64), sum = Tensor::empty({1}, DType::i64, gpu);
      kernels::bit_sum(x, expected);
      kernels::bit_sum(x.to(gpu), sum);
      EXPECT_EQ(*sum.to(cpu_device).data<std::int64_t>(), *expected.data<std::int64_t>())
          << name_of(dtype) << ' ' << n;
    }
  }
}

TEST_F(CudaKernelTest, SumsOfNoRowsAreZero) {
  const Tensor none = Tensor::empty({0, 4}, DType::f32, gpu),
               ones = Tensor::full({4}, 1, DType::f32, gpu),
               statistics = Tensor::empty({0}, DType::f32, gpu);
  const std::vector<double> zeros(4, 0);
  Tensor dx = none, sums = Tensor::full({4}, 7, DType::f32, gpu), dgamma = zeros_like(ones),
         dbeta = zeros_like(ones);
  kernels::unary_grad(Unary::relu, none, none, dx, View{}, sums);
  EXPECT_EQ(sums.to_doubles(), zeros);
  kernels::fill(sums, 7);
  kernels::layer_norm_grad(none, Tensor(), {}, 0, ones, statistics, statistics, none, dx, View{},
                           dgamma, dbeta, sums);
  EXPECT_EQ(sums.to_doubles(), zeros);
}

TEST_F(CudaKernelTest, AttentionOfNothingHasNoGradient) {
  const Var q = Var::leaf(random_normal({1, 2, 3, 32}, 1).cast(DType::bf16).to(gpu));
  const Tensor none = Tensor::empty({1, 2, 0, 32}, DType::bf16, gpu);
  Tape tape;
  const Var out = attention(q, none, none, {.out = DType::bf16});
  tape.backward(out, Tensor::full(out.shape(), 1, out.dtype(), gpu));
  EXPECT_EQ(q.grad().to_doubles(),
            std::vector<double>(static_cast<std::size_t>(q.value().numel()), 0));
}

}  // namespace
}  // namespace nystrom::testing
