#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "core/kernels.h"
#include "core/threads.h"
#include "tests/support/named.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

/// The memory layout of an operand.
enum class Layout { dense, transposed, gaps };
using enum Layout;

struct ProductCase : Named {
  Shape a, b, c;
  Layout a_layout = dense, b_layout = dense, c_layout = dense;
  bool bias = false, accumulate = false;
};

const ProductCase product_cases[] = {
    {"one_element", {1, 1}, {1, 1}, {1, 1}},
    {"row_times_column", {1, 9}, {9, 1}, {1, 1}},
    {"column_times_row", {9, 1}, {1, 7}, {9, 7}},
    {"odd", {5, 3}, {3, 7}, {5, 7}},
    {"larger_than_the_blocks", {131, 259}, {259, 301}, {131, 301}},
    {"a_transposed", {33, 17}, {17, 9}, {33, 9}, transposed},
    {"b_transposed", {33, 17}, {17, 9}, {33, 9}, dense, transposed},
    {"both_transposed", {33, 17}, {17, 9}, {33, 9}, transposed, transposed},
    {"gaps", {33, 17}, {17, 9}, {33, 9}, gaps, gaps, gaps},
    {"bias", {33, 17}, {17, 9}, {33, 9}, {}, {}, {}, true},
    {"bias_of_one_column", {33, 17}, {17, 1}, {33, 1}, {}, {}, {}, true},
    {"accumulate", {33, 17}, {17, 9}, {33, 9}, {}, {}, {}, false, true},
    {"accumulate_bias_gaps", {33, 17}, {17, 9}, {33, 9}, gaps, transposed, gaps, true, true},
    {"batched", {3, 5, 7}, {3, 7, 4}, {3, 5, 4}},
    {"batched_twice", {2, 3, 5, 7}, {2, 3, 7, 4}, {2, 3, 5, 4}},
    {"batched_heads", {2, 3, 5, 7}, {2, 3, 7, 4}, {2, 3, 5, 4}, gaps, gaps, gaps},
    {"batched_transposed", {2, 3, 5, 7}, {2, 3, 7, 4}, {2, 3, 5, 4}, transposed, transposed},
    {"broadcast_missing_axis", {2, 3, 5, 7}, {7, 4}, {2, 3, 5, 4}},
    {"broadcast_both", {2, 1, 5, 7}, {3, 7, 4}, {2, 3, 5, 4}},
    {"broadcast_accumulate", {2, 1, 5, 7}, {3, 7, 4}, {2, 3, 5, 4}, {}, {}, {}, false, true},
    {"nothing_to_sum", {3, 0}, {0, 4}, {3, 4}},
    {"nothing_to_sum_bias", {3, 0}, {0, 4}, {3, 4}, {}, {}, {}, true},
    {"no_rows", {0, 3}, {3, 4}, {0, 4}},
    {"no_batch", {0, 2, 3}, {3, 4}, {0, 2, 4}},
};

/// Standard normal values, equal in every layout and, up to bf16's rounding, in every type.
Tensor operand(const Shape& shape, Layout layout, DType dtype, std::uint64_t seed) {
  Tensor values = random_normal(shape, seed).cast(DType::bf16).cast(dtype);
  if (layout == transposed) return values.transpose(-1, -2).clone().transpose(-1, -2);
  if (layout == dense) return values;
  Tensor result = scattered(shape, dtype, seed, true);
  kernels::copy(values, result);
  return result;
}

using Product = void (*)(CView, CView, CView, View, bool);
void library(CView a, CView b, CView bias, View c, bool accumulate) {
  kernels::matmul(a, b, bias, c, accumulate, Precision::full);
}
void plain(CView a, CView b, CView bias, View c, bool accumulate) {
  kernels::matmul_plain(a, b, bias, c, accumulate);
}

Tensor run(Product product, const ProductCase& test, DType in, DType out) {
  const Tensor a = operand(test.a, test.a_layout, in, 1), b = operand(test.b, test.b_layout, in, 2);
  const Tensor bias = test.bias ? operand({test.c[-1]}, dense, in, 3) : Tensor();
  Tensor c = operand(test.c, test.c_layout, out, 4);
  product(a, b, bias, c, test.accumulate);
  return c;
}

/// The definition of the product in f64.
Tensor naive(const ProductCase& test) {
  const Tensor a = operand(test.a, dense, DType::f64, 1), b = operand(test.b, dense, DType::f64, 2);
  const Tensor bias = operand({test.c[-1]}, dense, DType::f64, 3);
  Tensor c = operand(test.c, dense, DType::f64, 4);
  const std::int64_t M = test.c[-2], N = test.c[-1], K = test.a[-1];
  const Shape batch = test.c.without(-1).without(-1);
  const Tensor wide_a = a.expand(batch.append(M).append(K)),
               wide_b = b.expand(batch.append(K).append(N));
  for (std::int64_t i = 0; i < c.numel(); ++i) {
    const std::int64_t n = i % N, m = i / N % M, e = i / N / M;
    double sum = (test.accumulate ? element(c, i) : 0) + (test.bias ? element(bias, n) : 0);
    for (std::int64_t k = 0; k < K; ++k)
      sum += element(wide_a, (e * M + m) * K + k) * element(wide_b, (e * K + k) * N + n);
    c.data<double>()[i] = sum;
  }
  return c;
}

class Matmul : public ::testing::TestWithParam<ProductCase> {};

TEST_P(Matmul, PlainEqualsTheDefinitionAtEveryLevel) {
  const Tensor expected = naive(GetParam());
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    EXPECT_LE(relative_difference(run(plain, GetParam(), DType::f64, DType::f64), expected), 1e-14)
        << name_of(level);
    EXPECT_LE(relative_difference(run(plain, GetParam(), DType::f32, DType::f32), expected), 1e-6)
        << name_of(level);
    EXPECT_LE(relative_difference(run(plain, GetParam(), DType::bf16, DType::f32), expected), 1e-6)
        << name_of(level);
  }
}

TEST_P(Matmul, LibraryEqualsPlainInF32) {
  const Tensor expected = run(plain, GetParam(), DType::f64, DType::f64);
  EXPECT_LE(relative_difference(run(library, GetParam(), DType::f32, DType::f32), expected), 1e-6);
}

TEST_P(Matmul, LibraryEqualsPlainInBf16) {
  const Tensor expected = run(plain, GetParam(), DType::f64, DType::f64);
  for (const CpuLevel level :
       {CpuLevel::avx512, CpuLevel::avx2}) {  // with and without bf16 instructions
    const AtLevel at(level);
    EXPECT_LE(relative_difference(run(library, GetParam(), DType::bf16, DType::f32), expected),
              1e-6)
        << name_of(level) << " into f32";
    EXPECT_LE(relative_difference(run(library, GetParam(), DType::bf16, DType::bf16), expected),
              4e-3)
        << name_of(level);
  }
}

TEST_P(Matmul, OfF64IsThePlainOne) {
  EXPECT_EQ(elements(run(library, GetParam(), DType::f64, DType::f64)),
            elements(run(plain, GetParam(), DType::f64, DType::f64)));
}

INSTANTIATE_TEST_SUITE_P(Products, Matmul, ::testing::ValuesIn(product_cases), case_name);

TEST(MatmulPlain, DoesNotDependOnTheNumberOfThreads) {
  const ProductCase test{"large", {2, 200, 150}, {150, 300}, {2, 200, 300}};
  const int before = num_threads();
  set_num_threads(1);
  const auto expected = elements(run(plain, test, DType::f32, DType::f32));
  set_num_threads(3);
  EXPECT_EQ(elements(run(plain, test, DType::f32, DType::f32)), expected);
  set_num_threads(before);
}

TEST(MatmulLibrary, LeavesTheThreadsThatAThreadHasChosen) {
  std::thread([] {
    const int chosen = num_threads() + 1;
    set_num_threads(chosen);
    run(library, {"small", {1, 2, 3}, {3, 2}, {1, 2, 2}}, DType::f32, DType::f32);
    EXPECT_EQ(num_threads(), chosen);
  }).join();
}

/// The cache of products is shared: several threads run a product that this thread created.
TEST(MatmulLibrary, RunsInSeveralThreadsAtOnce) {
  const ProductCase test{"large", {4, 65, 33}, {4, 33, 129}, {4, 65, 129}, transposed, transposed};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto expected = elements(run(library, test, dtype, dtype));
    bool equal[3] = {false, false, false};
    std::vector<std::thread> threads;
    for (bool& result : equal) {
      threads.emplace_back([&] {
        result = true;
        for (int i = 0; i < 20; ++i)
          result = result && elements(run(library, test, dtype, dtype)) == expected;
      });
    }
    for (auto& thread : threads) thread.join();
    for (const bool result : equal) EXPECT_TRUE(result) << name_of(dtype);
  }
}

}  // namespace
}  // namespace nystrom::testing
