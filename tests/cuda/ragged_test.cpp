// The kernels of ragged batches, compared with the CPU's f64 kernels on the same rounded numbers.
// Rows outside the spans are NaN in operands, and keep a mark in results.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/kernels.h"
#include "core/row_spans.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

constexpr double mark = 7;
constexpr double scale = 0.25;

/// The lengths of spans with gaps between them. `dense`: those of a dense tensor's equal parts.
struct Batch {
  std::vector<std::int64_t> lengths;
  bool dense = false;

  /// The last span lies first.
  std::vector<RowRange> ranges() const {
    std::vector<RowRange> found;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int64_t begin = end + static_cast<std::int64_t>(dense ? 0 : i % 3 + 1);
      end = begin + lengths[(i + lengths.size() - 1) % lengths.size()];
      found.push_back({begin, end});
    }
    if (!found.empty()) std::rotate(found.begin(), found.begin() + 1, found.end());
    return found;
  }
  RowSpans spans(Device device) const { return dense ? RowSpans() : RowSpans(ranges(), device); }
  std::int64_t parts() const { return std::ssize(lengths); }
  std::int64_t rows() const {
    std::int64_t end = dense ? 0 : 1;  // a gap behind the last span
    for (const RowRange& range : ranges()) end = std::max(end, range.end + (dense ? 0 : 1));
    return end;
  }
  std::vector<bool> inside() const {
    std::vector<bool> found(static_cast<std::size_t>(rows()));
    for (const RowRange& range : ranges())
      std::fill(found.begin() + range.begin, found.begin() + range.end, true);
    return found;
  }
  /// Rows [rows, …] as heads [r, h, width] or [p, h, n, width], where width may be absent.
  Tensor as_heads(const Tensor& x) const {
    if (!dense) return x;
    return x.reshape(x.shape().without(0).with(0, lengths[0]).with(0, parts())).transpose(1, 2);
  }
  /// Values that bf16 and f16 represent exactly.
  Tensor values(const Shape& row, std::uint64_t seed, DType dtype, Device device) const {
    const Tensor x = half_normal(row.with(0, rows()), seed);
    std::vector<double> numbers = x.to_doubles();
    for (std::int64_t i = 0; i < x.numel(); ++i)
      if (!inside()[static_cast<std::size_t>(i / row.numel())])
        numbers[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
    return Tensor::from(numbers, x.shape()).cast(dtype).to(device);
  }
  Tensor marked(const Shape& row, DType dtype, Device device) const {
    return Tensor::full(row.with(0, rows()), mark, dtype, device);
  }
  Tensor heads(std::int64_t h, std::int64_t width, std::uint64_t seed, DType dtype,
               Device device) const {
    return as_heads(values({h, width}, seed, dtype, device));
  }
  Tensor marked_heads(std::int64_t h, std::int64_t width, DType dtype, Device device) const {
    return as_heads(marked({h, width}, dtype, device));
  }
  /// [h, r] or [p, h, n].
  Tensor marked_sums(std::int64_t h, DType dtype, Device device) const {
    const Shape shape = dense ? Shape{parts(), h, lengths[0]} : Shape{h, rows()};
    return Tensor::full(shape, mark, accumulate_dtype(dtype), device);
  }
  /// Whether rows [r, …] outside the spans have the mark.
  bool keeps_marks(const Tensor& x) const {
    if (dense) return true;
    const std::vector<double> numbers = x.contiguous().to_doubles();
    const std::vector<bool> in_span = inside();
    const std::size_t row = numbers.size() / in_span.size();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!in_span[i / row] && numbers[i] != mark) return false;
    return true;
  }
};

/// The largest difference relative to the largest finite number. Infinite numbers must be equal.
Difference difference(const Tensor& got, const Tensor& expected) {
  const std::vector<double> x = got.contiguous().to_doubles(),
                            y = expected.contiguous().to_doubles();
  double worst = x.size() == y.size() ? 0 : 1e300, largest = 1e-9;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i]));
    const double apart = x[i] == y[i] ? 0 : std::abs(x[i] - y[i]);
    worst = std::max(worst, std::isfinite(apart) ? apart : 1e300);
  }
  return {worst / largest};
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 2e-2;
    case DType::f16: return 2.5e-3;
    case DType::f32: return 1e-5;
    default: return 1e-12;
  }
}

/// A result, its name, and the batch of its rows; null: it has none.
struct Result {
  const char* name;
  Tensor value;
  const Batch* batch;
};

void expect_close(const std::vector<Result>& got, const std::vector<Result>& expected,
                  double tolerance) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(difference(got[i].value, expected[i].value), tolerance) << got[i].name;
    if (got[i].batch) {
      EXPECT_TRUE(got[i].batch->keeps_marks(got[i].value)) << got[i].name;
    }
  }
}

void expect_equal(const std::vector<Result>& first, const std::vector<Result>& second) {
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i].value.contiguous().to_doubles(), second[i].value.contiguous().to_doubles())
        << first[i].name;
}

const auto types = ::testing::Values(DType::bf16, DType::f16, DType::f32, DType::f64);

/// log_sum_exp with the rows first.
Tensor by_rows(const Tensor& sums, const Batch& queries) {
  return queries.dense ? sums : sums.transpose(0, 1);
}

struct AttentionCase : Named {
  Batch queries, keys;
  std::int64_t width = 32;
};

const std::vector<std::int64_t> around_a_tile{0, 1, 63, 64, 65, 130};
const AttentionCase attention_cases[] = {
    {"around_a_tile", {around_a_tile}, {around_a_tile}},
    {"queries_and_keys_differ", {{70, 0, 5, 129}}, {{3, 40, 0, 200}}, 64},
    {"keys_of_a_tile", {{70, 0, 130, 5}}, {{64, 3, 0, 33}}},
    {"queries_of_a_tile", {{64, 3, 0, 33}}, {{70, 0, 130, 5}}, 128},
    {"landmarks_ask", {{16, 16, 16, 16}, true}, {{0, 1, 64, 300}}, 64},
    {"landmarks_answer", {{0, 1, 64, 300}}, {{16, 16, 16, 16}, true}, 64},
    {"more_landmarks_than_a_tile", {{80, 80}, true}, {{70, 131}}},
    {"landmarks_ask_in_parts", {{20, 20}, true}, {{70, 64 * 9 + 5}}},
    {"landmarks_answer_in_parts", {{64 * 9 + 5, 0, 70}}, {{64, 64, 64}, true}},
    {"both_loops_in_parts", {{64 * 8 + 1, 10}}, {{64 * 8, 130}}},
    {"no_keys", {{3, 70}}, {{0, 0}}},
    {"no_queries", {{0, 0}}, {{3, 70}}},
    {"empty_spans", {{0, 0}}, {{0, 0}}},
    {"no_spans", {}, {}},
    {"no_tensor_cores", {around_a_tile}, {around_a_tile}, 12},
};

std::vector<Result> attend(const AttentionCase& c, DType dtype, Device device) {
  constexpr std::int64_t heads = 2;
  const auto heads_of = [&](const Batch& batch, std::uint64_t seed) {
    return batch.heads(heads, c.width, seed, dtype, device);
  };
  const auto marked = [&](const Batch& batch) {
    return batch.marked_heads(heads, c.width, dtype, device);
  };
  const Tensor q = heads_of(c.queries, 1), k = heads_of(c.keys, 2), v = heads_of(c.keys, 3),
               dout = heads_of(c.queries, 4);
  const RowSpans queries = c.queries.spans(device), keys = c.keys.spans(device);
  Tensor out = marked(c.queries), dq = marked(c.queries), dk = marked(c.keys), dv = marked(c.keys),
         sums = c.queries.marked_sums(heads, dtype, device);
  kernels::attention(q, k, v, queries, keys, CView{}, EmptyRows::zero, scale, out, sums);
  kernels::attention_grad(q, k, v, queries, keys, CView{}, EmptyRows::zero, scale, out, sums, dout,
                          dq, dk, dv);
  return {{"out", out, &c.queries},
          {"log_sum_exp", by_rows(sums, c.queries), &c.queries},
          {"dq", dq, &c.queries},
          {"dk", dk, &c.keys},
          {"dv", dv, &c.keys}};
}

class RaggedAttentionTest
    : public GpuTest<::testing::TestWithParam<std::tuple<AttentionCase, DType>>> {};

TEST_P(RaggedAttentionTest, EqualsTheCpusF64) {
  const auto& [c, dtype] = GetParam();
  const auto got = attend(c, dtype, gpu);
  expect_close(got, attend(c, DType::f64, cpu_device), tolerance_of(dtype));
  run_threads_backward();
  expect_equal(attend(c, dtype, gpu), got);
}

INSTANTIATE_TEST_SUITE_P(Cases, RaggedAttentionTest,
                         ::testing::Combine(::testing::ValuesIn(attention_cases), types),
                         case_and_type);

/// Attention of tokens to landmarks with the convolution of values, and the gradients of attention
/// of landmarks to tokens with that of the convolution.
struct ConvolvedCase : Named {
  Batch tokens;
  std::int64_t width, taps;
  Batch landmarks;
};

Batch landmarks_of(const Batch& tokens, std::int64_t count) {
  return {std::vector<std::int64_t>(tokens.lengths.size(), count), true};
}
const ConvolvedCase convolved_cases[] = {
    {"around_a_tile", {around_a_tile}, 64, 33, landmarks_of({around_a_tile}, 32)},
    {"narrow", {{5, 0, 140}}, 32, 5, landmarks_of({{5, 0, 140}}, 20)},
    {"wide", {{130, 7}}, 128, 3, landmarks_of({{130, 7}}, 64)},
    {"parts", {{64 * 9 + 5, 70}}, 32, 33, landmarks_of({{64 * 9 + 5, 70}}, 32)},
    {"more_landmarks_than_a_tile", {{130, 7}}, 32, 9, landmarks_of({{130, 7}}, 70)},
    {"no_tensor_cores", {{5, 0, 140}}, 12, 5, landmarks_of({{5, 0, 140}}, 6)},
    {"spans_of_landmarks", {{70, 9, 0}}, 32, 33, {{0, 40, 3}}},
};

std::vector<Result> convolve_too(const ConvolvedCase& c, DType dtype, Device device) {
  constexpr std::int64_t heads = 2;
  const auto heads_of = [&](const Batch& batch, std::uint64_t seed) {
    return batch.heads(heads, c.width, seed, dtype, device);
  };
  const auto marked = [&](const Batch& batch) {
    return batch.marked_heads(heads, c.width, dtype, device);
  };
  const Tensor q = heads_of(c.tokens, 1), k = heads_of(c.tokens, 2), v = heads_of(c.tokens, 3),
               dy = heads_of(c.tokens, 4), ask = heads_of(c.landmarks, 5),
               answer = heads_of(c.landmarks, 6), values = heads_of(c.landmarks, 7),
               dvalues = heads_of(c.landmarks, 8);
  const Tensor taps = half_normal({heads, c.taps}, 9).cast(dtype).to(device);
  const RowSpans tokens = c.tokens.spans(device), landmarks = c.landmarks.spans(device);
  Tensor out = marked(c.tokens), sums = c.tokens.marked_sums(heads, dtype, device),
         read = marked(c.landmarks), read_sums = c.landmarks.marked_sums(heads, dtype, device),
         dq = marked(c.landmarks), dk = marked(c.tokens), dv = marked(c.tokens),
         dw = Tensor::full({heads, c.taps}, 1, accumulate_dtype(dtype), device);
  kernels::attention_with_conv(q, answer, values, tokens, landmarks, scale, v, taps, out, sums);
  kernels::attention(ask, k, v, landmarks, tokens, CView{}, EmptyRows::zero, scale, read,
                     read_sums);
  kernels::attention_grad_with_conv(ask, k, v, landmarks, tokens, CView{}, EmptyRows::zero, scale,
                                    read, read_sums, dvalues, taps, dy, dq, dk, dv, dw);
  return {{"out", out, &c.tokens},  {"log_sum_exp", by_rows(sums, c.tokens), &c.tokens},
          {"dq", dq, &c.landmarks}, {"dk", dk, &c.tokens},
          {"dv", dv, &c.tokens},    {"dw", dw, nullptr}};
}

class RaggedAttentionWithConvTest
    : public GpuTest<::testing::TestWithParam<std::tuple<ConvolvedCase, DType>>> {};

TEST_P(RaggedAttentionWithConvTest, EqualsTheCpusF64) {
  const auto& [c, dtype] = GetParam();
  const auto got = convolve_too(c, dtype, gpu);
  expect_close(got, convolve_too(c, DType::f64, cpu_device), tolerance_of(dtype));
  run_threads_backward();
  expect_equal(convolve_too(c, dtype, gpu), got);
}

INSTANTIATE_TEST_SUITE_P(Cases, RaggedAttentionWithConvTest,
                         ::testing::Combine(::testing::ValuesIn(convolved_cases), types),
                         case_and_type);

struct RowsCase : Named {
  Batch rows;
  std::int64_t width, taps, segments;
};

const RowsCase rows_cases[] = {
    {"around_tiles", {{0, 1, 63, 64, 65, 127, 128, 129}}, 64, 33, 8},
    {"narrow", {{5, 0, 140}}, 32, 5, 64},
    {"odd_width", {{5, 0, 140}}, 7, 5, 3},
    {"slices", {{130, 31}}, 160, 1, 1},
    {"longer_than_the_spans", {{9, 0, 2}}, 32, 65, 4},
    {"empty_spans", {{0, 0}}, 32, 5, 4},
    {"no_spans", {}, 32, 5, 4},
};

class RaggedRowsTest : public GpuTest<::testing::TestWithParam<std::tuple<RowsCase, DType>>> {};

/// The convolution and its gradients, alone and added to what is there.
std::vector<Result> convolve(const RowsCase& c, DType dtype, Device device) {
  constexpr std::int64_t heads = 2;
  const RowSpans spans = c.rows.spans(device);
  const auto heads_of = [&](std::uint64_t seed) {
    return c.rows.heads(heads, c.width, seed, dtype, device);
  };
  const auto marked = [&] { return c.rows.marked_heads(heads, c.width, dtype, device); };
  const Tensor x = heads_of(1), dy = heads_of(2);
  const Tensor taps = half_normal({heads, c.taps}, 3).cast(dtype).to(device);
  Tensor y = marked(), added = marked(), dx = marked(), dx_added = marked();
  Tensor dw = Tensor::full({heads, c.taps}, 1, accumulate_dtype(dtype), device);
  kernels::sequence_conv(x, taps, spans, CView{}, y);
  kernels::sequence_conv(x, taps, spans, added, added);
  kernels::sequence_conv_grad(x, taps, spans, dy, CView{}, dx, dw);
  kernels::sequence_conv_grad(x, taps, spans, dy, dx_added, dx_added, dw);
  return {{"y", y, &c.rows},
          {"y + addend", added, &c.rows},
          {"dx", dx, &c.rows},
          {"dx + addend", dx_added, &c.rows},
          {"dw", dw, nullptr}};
}

TEST_P(RaggedRowsTest, AreConvolvedAsByTheCpuInF64) {
  const auto& [c, dtype] = GetParam();
  const auto got = convolve(c, dtype, gpu);
  expect_close(got, convolve(c, DType::f64, cpu_device), tolerance_of(dtype) / 4);
  run_threads_backward();
  expect_equal(convolve(c, dtype, gpu), got);
}

std::vector<Result> segment_means(const RowsCase& c, DType dtype, Device device) {
  const RowSpans spans = c.rows.spans(device);
  const Tensor x = c.rows.values({c.width}, 1, dtype, device);
  const Shape means{c.rows.parts(), c.segments, c.width};
  Tensor y = Tensor::empty(means, accumulate_dtype(dtype), device);
  Tensor dx = c.rows.marked({c.width}, dtype, device);
  kernels::segment_means(x, spans, y);
  kernels::segment_means_grad(random_normal(means, 2).cast(y.dtype()).to(device), spans, dx);
  return {{"y", y, nullptr}, {"dx", dx, &c.rows}};
}

TEST_P(RaggedRowsTest, HaveTheMeansOfTheCpuInF64) {
  const auto& [c, dtype] = GetParam();
  expect_close(segment_means(c, dtype, gpu), segment_means(c, DType::f64, cpu_device),
               tolerance_of(dtype) / 4);
}

TEST(RaggedRows, ManyHaveAMeanAsExactAsFew) {
  const Tensor x = Tensor::full({1, 200'000, 3}, 0.1, DType::f32).to(gpu);
  Tensor y = Tensor::empty({1, 1, 3}, DType::f32, gpu);
  kernels::segment_means(x, {}, y);
  for (const double mean : y.to(cpu_device).to_doubles()) EXPECT_NEAR(mean, 0.1, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Cases, RaggedRowsTest,
                         ::testing::Combine(::testing::ValuesIn(rows_cases), types), case_and_type);

}  // namespace
}  // namespace nystrom::testing
