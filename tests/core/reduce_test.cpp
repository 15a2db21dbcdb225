#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "core/kernels.h"
#include "core/threads.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

using Values = std::vector<double>;

TEST(SumOfSquares, EqualsANaiveSum) {
  for (const std::int64_t n : {0, 1, 17, 65536, 65537, 300000}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const Tensor x = random_normal({n}, 1).cast(dtype);
      double expected = 0;
      for (const double v : elements(x)) expected += v * v;
      EXPECT_NEAR(sum_of_squares(x), expected, 1e-12 * expected) << n << ' ' << name_of(dtype);
    }
  }
}

std::uint64_t bit_sum(const Tensor& x) {
  Tensor y = Tensor::empty({1}, DType::i64);
  kernels::bit_sum(x, y);
  return static_cast<std::uint64_t>(*y.data<std::int64_t>());
}

TEST(BitSum, IsTheSumOfWeightedWords) {
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    for (const std::int64_t n : {0, 1, 17, 65536, 200001}) {
      const Tensor x = random_normal({n}, 1), single = x.cast(DType::f32),
                   half = x.cast(DType::bf16);
      std::uint64_t of_f64 = 0, of_f32 = 0, of_bf16 = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t weight = 2 * static_cast<std::uint64_t>(i) + 1;
        of_f64 += weight * std::bit_cast<std::uint64_t>(x.data<double>()[i]);
        of_f32 += weight * std::bit_cast<std::uint32_t>(single.data<float>()[i]);
        of_bf16 += weight * half.data<bf16>()[i].bits;
      }
      EXPECT_EQ(bit_sum(x), of_f64) << n;
      EXPECT_EQ(bit_sum(single), of_f32) << n;
      EXPECT_EQ(bit_sum(half), of_bf16) << n;
    }
  }
}

TEST(SumMiddle, EqualsANaiveSum) {
  for (const Shape& shape :
       {Shape{2, 3, 4}, {1, 1000, 3}, {700, 3, 1}, {1, 40000, 1}, {3, 1, 5}, {2, 0, 3}}) {
    for (const bool accumulate : {false, true}) {
      const Tensor x = random_normal(shape, 1);
      Tensor y = random_normal({shape[0], shape[2]}, 2);
      Values expected = accumulate ? elements(y) : Values(static_cast<std::size_t>(y.numel()), 0);
      for (std::int64_t i = 0; i < x.numel(); ++i)
        expected[static_cast<std::size_t>(i / shape[2] / shape[1] * shape[2] + i % shape[2])] +=
            element(x, i);
      kernels::sum_middle(x, y, accumulate);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(elements(y)[i], expected[i], 1e-11) << shape.to_string() << accumulate;
    }
  }
}

TEST(SegmentMeans, OfAMillionRowsAreAsExactAsOfFew) {
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    const Tensor x = Tensor::full({1, 1'000'000, 3}, 0.1, DType::f32);
    Tensor y = Tensor::empty({1, 1, 3}, DType::f32);
    kernels::segment_means(x, {}, y);
    for (const double mean : elements(y)) EXPECT_NEAR(mean, 0.1, 1e-6);
  }
}

TEST(SegmentMeans, OfManyRowsAreWrittenInTheirPlaceAlone) {
  const Tensor x = Tensor::full({1, 2048, 3}, 2, DType::f32);
  Tensor both = Tensor::full({2, 1, 3}, 7, DType::f32);
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    kernels::segment_means(x, {}, both.slice(0, 0, 1));
    EXPECT_EQ(elements(both), (Values{2, 2, 2, 7, 7, 7})) << name_of(level);
  }
}

TEST(SumMiddle, OfBf16IsSummedInF32) {
  // A sum in bf16 would stop at 256.
  const Tensor x = Tensor::full({1, 5000, 1}, 1, DType::bf16);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor y = Tensor::empty({1, 1}, dtype);
    kernels::sum_middle(x, y, false);
    EXPECT_NEAR(y.item(), 5000, dtype == DType::f32 ? 0 : 16);
  }
}

TEST(ArgmaxRows, IsTheFirstPlaceOfTheLargest) {
  const Values x{1, 5, 5, 2, -3, -1, -2, -1, 0, 0, 0, 0, -INFINITY, -INFINITY, 1, INFINITY};
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      Tensor y = Tensor::empty({4}, DType::i64);
      kernels::argmax_rows(Tensor::from(x, {4, 4}).cast(dtype), y);
      EXPECT_EQ(elements(y), (Values{1, 1, 0, 3})) << name_of(level) << ' ' << name_of(dtype);
    }
  }
}

TEST(ArgmaxRows, StaysInARowOfNans) {
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    Tensor y = Tensor::empty({1}, DType::i64);
    kernels::argmax_rows(Tensor::full({1, 3}, NAN, DType::f32), y);
    EXPECT_LT(element(y, 0), 3) << name_of(level);
  }
}

/// The share of draws of each index is its probability, on rows of one and of several tiles.
TEST(SampleRows, DrawsFromTheSoftmax) {
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    for (const std::int64_t n : {3, 700}) {
      // Weights 1, 2 and 3 at the first, the middle and the last place, and none elsewhere.
      std::vector<double> logits(static_cast<std::size_t>(n), -1e4);
      logits.front() = std::log(1.0);
      logits[static_cast<std::size_t>(n / 2)] = std::log(2.0);
      logits.back() = std::log(3.0);
      const Values shares{0.001, 0.16, 0.17, 0.49, 0.51, 0.999};
      std::vector<double> rows;
      for (std::size_t i = 0; i < shares.size(); ++i)
        rows.insert(rows.end(), logits.begin(), logits.end());
      Tensor y = Tensor::empty({6}, DType::i64);
      kernels::sample_rows(Tensor::from(rows, {6, n}).cast(DType::f32), Tensor::from(shares, {6}),
                           y);
      const auto middle = static_cast<double>(n / 2), last = static_cast<double>(n - 1);
      EXPECT_EQ(elements(y), (Values{0, 0, middle, middle, last, last})) << name_of(level) << n;
    }
  }
}

TEST(SampleRows, StaysInARowOfNans) {
  Tensor y = Tensor::empty({1}, DType::i64);
  kernels::sample_rows(Tensor::full({1, 3}, NAN, DType::f32), Tensor::full({1}, 0.5, DType::f64),
                       y);
  EXPECT_LT(element(y, 0), 3);
}

Tensor normal(const Shape& shape, std::uint64_t seed) {
  return random_normal(shape, seed).cast(DType::f32);
}

TEST(LayerNorm, TakesRowsThatAreMoreThanAThreadsShare) {
  const std::int64_t width = 20000;
  const Tensor x = normal({2, width}, 1), gamma = Tensor::full({width}, 1, DType::f32),
               beta = Tensor::zeros({width}, DType::f32);
  Tensor y = empty_like(x), mean = Tensor::empty({2}, DType::f32), rstd = empty_like(mean);
  kernels::layer_norm(x, {}, {}, {}, 0, gamma, beta, 1e-5, {}, y, mean, rstd);
  EXPECT_NEAR(element(y, width), (element(x, width) - element(mean, 1)) * element(rstd, 1), 1e-5);
}

Tensor layer_norm_gradients() {
  const Tensor x = normal({3000, 20}, 1), gamma = normal({20}, 2), dy = normal({3000, 20}, 3);
  Tensor y = empty_like(x), dx = empty_like(x), mean = Tensor::empty({3000}, DType::f32),
         rstd = empty_like(mean);
  kernels::layer_norm(x, {}, {}, {}, 0, gamma, gamma, 1e-5, {}, y, mean, rstd);
  Tensor sums = Tensor::zeros({2, 20}, DType::f32);
  Tensor dgamma = sums.slice(0, 0, 1).reshape({20}), dbeta = sums.slice(0, 1, 2).reshape({20});
  kernels::layer_norm_grad(x, {}, {}, 0, gamma, mean, rstd, dy, dx, {}, dgamma, dbeta, {});
  return sums;
}

Tensor convolution_gradient() {
  const Tensor x = normal({3, 4, 200, 16}, 1), w = normal({4, 33}, 2),
               dy = normal({3, 4, 200, 16}, 3);
  Tensor dx = empty_like(x), dw = zeros_like(w);
  kernels::sequence_conv_grad(x, w, {}, dy, CView{}, dx, dw);
  return dw;
}

Tensor scattered_rows() {
  std::vector<std::int64_t> index(5000);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i * i % 13);
  Tensor y = Tensor::zeros({13, 40}, DType::f32);
  kernels::scatter_add_rows(normal({5000, 40}, 1), int_tensor(index, {5000}), -1, y);
  return y;
}

Tensor attention_gradient() {
  const Tensor q = normal({2, 2, 130, 16}, 1), k = normal({2, 2, 150, 16}, 2),
               v = normal({2, 2, 150, 16}, 3), dout = normal({2, 2, 130, 16}, 4);
  Tensor out = empty_like(q), lse = Tensor::empty({2, 2, 130}, DType::f32), dq = empty_like(q),
         dk = empty_like(k), dv = empty_like(v);
  kernels::attention(q, k, v, {}, {}, CView{}, EmptyRows::zero, 0.25, out, lse);
  kernels::attention_grad(q, k, v, {}, {}, CView{}, EmptyRows::zero, 0.25, out, lse, dout, dq, dk,
                          dv);
  kernels::accumulate(dv, 1, dk);
  return dk;
}

Tensor column_sums() {
  Tensor y = Tensor::empty({1, 33}, DType::f32);
  kernels::sum_middle(normal({1, 5000, 33}, 1), y, false);
  return y;
}

Tensor row_sums() {
  Tensor y = Tensor::empty({70, 1}, DType::f32);
  kernels::sum_middle(normal({70, 5000, 1}, 1), y, false);
  return y;
}

const std::map<std::string, std::function<Tensor()>> reductions{
    {"attention_grad", attention_gradient},
    {"bit_sum",
     [] {
       return Tensor::full({1}, static_cast<double>(bit_sum(normal({300000}, 1)) >> 11),
                           DType::f64);
     }},
    {"layer_norm_grad", layer_norm_gradients},
    {"scatter_add_rows", scattered_rows},
    {"sequence_conv_grad", convolution_gradient},
    {"sum_middle_of_columns", column_sums},
    {"sum_middle_of_rows", row_sums},
    {"sum_of_squares",
     [] { return Tensor::full({1}, sum_of_squares(normal({300000}, 1)), DType::f64); }},
};

TEST(Reductions, DoNotDependOnTheNumberOfThreads) {
  const int before = num_threads();
  for (const auto& [name, reduction] : reductions) {
    set_num_threads(1);
    const Values expected = elements(reduction());
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      EXPECT_EQ(elements(reduction()), expected) << name << " on " << threads << " threads";
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace nystrom::testing
