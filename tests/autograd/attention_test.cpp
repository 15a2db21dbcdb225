// The fused attention compared with the unfused oracle, and its independence of padding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/named.h"
#include "tests/support/oracle.h"
#include "tests/support/views.h"

namespace nystrom::testing {
namespace {

struct AttentionCase : Named {
  std::int64_t samples, heads, queries, keys, width, value_width;
  double scale;
  std::vector<std::uint8_t> mask = {};
  EmptyRows empty_rows = EmptyRows::zero;
};

/// A mask of two samples: the first `first` keys of one and the first `second` keys of the other.
std::vector<std::uint8_t> padded(std::int64_t keys, std::int64_t first, std::int64_t second) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(2 * keys), 0);
  for (std::int64_t i = 0; i < first; ++i) mask[static_cast<std::size_t>(i)] = 1;
  for (std::int64_t i = 0; i < second; ++i) mask[static_cast<std::size_t>(keys + i)] = 1;
  return mask;
}

const AttentionCase attention_cases[] = {
    {"small", 2, 3, 5, 7, 4, 3, 0.5},
    {"one_query_one_key", 1, 1, 1, 1, 1, 1, 1},
    {"few_queries_many_keys", 2, 2, 8, 300, 16, 16, 0.25},
    {"many_queries_few_keys", 2, 2, 300, 8, 16, 16, 0.25},
    {"exactly_one_block", 1, 2, 64, 64, 8, 8, 0.35},
    {"one_more_than_a_block", 1, 2, 65, 65, 8, 8, 0.35},
    {"peaky", 1, 2, 33, 70, 8, 8, 20},
    {"padded", 2, 2, 9, 150, 8, 5, 0.3, padded(150, 40, 150)},
    {"empty_sample", 2, 2, 9, 70, 8, 5, 0.3, padded(70, 33, 0)},
    {"empty_sample_uniform", 2, 2, 9, 70, 8, 5, 0.3, padded(70, 33, 0), EmptyRows::uniform},
    {"odd_rows", 2, 2, 37, 71, 16, 32, 0.3},
    {"more_than_a_group", 1, 2, 600, 65, 32, 16, 0.3},
    {"tiles_and_rest", 2, 2, 83, 95, 48, 64, 0.3},
    {"odd_padded", 2, 2, 67, 133, 32, 16, 0.3, padded(133, 65, 131)},
    {"empty_sample_of_pairs", 2, 1, 9, 70, 16, 16, 0.3, padded(70, 33, 0), EmptyRows::uniform},
};

using Attention = Var (*)(const Var&, const Var&, const Var&, const AttentionOptions&);

/// Random numbers that every type holds exactly.
Tensor rounded(const Shape& shape, std::uint64_t seed) {
  return random_normal(shape, seed).cast(DType::bf16);
}

/// The output, dq, dk and dv.
std::vector<Tensor> run(Attention f, const AttentionCase& test, DType dtype) {
  Tape tape;
  const auto leaf = [&](std::int64_t rows, std::int64_t width, std::uint64_t seed) {
    return Var::leaf(rounded({test.samples, test.heads, rows, width}, seed).cast(dtype));
  };
  const Var q = leaf(test.queries, test.width, 1), k = leaf(test.keys, test.width, 2),
            v = leaf(test.keys, test.value_width, 3);
  const Tensor mask =
      test.mask.empty() ? Tensor() : mask_tensor(test.mask, {test.samples, test.keys});
  const Var out =
      f(q, k, v,
        {.scale = test.scale, .out = dtype, .key_mask = mask, .empty_rows = test.empty_rows});
  tape.backward(out, rounded(out.shape(), 4).cast(dtype));
  return {out.value(), q.grad(), k.grad(), v.grad()};
}

class FusedAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(FusedAttention, EqualsTheUnfusedOne) {
  const char* names[] = {"output", "dq", "dk", "dv"};
  const auto expected = run(unfused_attention, GetParam(), DType::f64);
  for (const CpuLevel level : cpu_levels) {
    const AtLevel at(level);
    for (const auto& [dtype, tolerance] :
         {std::pair(DType::f64, 1e-12), {DType::f32, 2e-5}, {DType::bf16, 1.5e-2}}) {
      const auto got = run(attention, GetParam(), dtype);
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_LE(relative_difference(got[i], expected[i]), tolerance)
            << names[i] << " in " << name_of(dtype) << ", " << name_of(level);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FusedAttention, ::testing::ValuesIn(attention_cases), case_name);

TEST(AttentionPadding, MayHoldInfinitiesAndNans) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::uint8_t> mask{1, 0, 1, 0, 1};
  Tensor k = random_normal({1, 1, 5, 4}, 2).cast(DType::f32),
         v = random_normal({1, 1, 5, 4}, 3).cast(DType::f32);
  for (Tensor* x : {&k, &v}) {
    kernels::fill(x->slice(2, 1, 2), infinity);
    kernels::fill(x->slice(2, 3, 4), NAN);
  }
  Tape tape;
  const Var q = Var::leaf(random_normal({1, 1, 3, 4}, 1).cast(DType::f32)), keys = Var::leaf(k),
            values = Var::leaf(v);
  const Var out = attention(
      q, keys, values, {.scale = 0.5, .out = DType::f32, .key_mask = mask_tensor(mask, {1, 5})});
  tape.backward(out, Tensor::full(out.shape(), 1, DType::f32));

  for (const Tensor& x : {out.value(), q.grad(), keys.grad(), values.grad()}) {
    for (const double value : elements(x)) EXPECT_TRUE(std::isfinite(value));
  }
  for (const Tensor& x : {keys.grad(), values.grad()}) {
    for (const double value : elements(x.slice(2, 1, 2))) EXPECT_EQ(value, 0);
    for (const double value : elements(x.slice(2, 3, 4))) EXPECT_EQ(value, 0);
  }
}

TEST(AttentionPadding, WhatItHoldsChangesNothing) {
  const Tensor mask = mask_tensor({1, 1, 0, 1}, {1, 4});
  const Tensor q = random_normal({1, 2, 3, 4}, 1), v = random_normal({1, 2, 4, 4}, 3);
  Tensor k = random_normal({1, 2, 4, 4}, 2);
  const AttentionOptions options{.out = DType::f64, .key_mask = mask};
  const auto before = elements(attention(q, k, v, options).value());
  kernels::fill(k.slice(2, 2, 3), 1e300);
  EXPECT_EQ(elements(attention(q, k, v, options).value()), before);
}

struct RaggedCase : Named {
  std::vector<RowRange> queries, keys;
};

const RaggedCase ragged_cases[] = {
    {"one_span", {{0, 90}}, {{0, 90}}},
    {"blocks_and_beside",
     {{0, 1}, {1, 64}, {64, 129}, {129, 193}},
     {{0, 65}, {65, 66}, {66, 130}, {130, 193}}},
    {"empty_spans_and_gaps", {{2, 2}, {3, 70}, {75, 80}}, {{0, 5}, {5, 5}, {9, 160}}},
    {"many_queries", {{0, 700}, {700, 703}}, {{0, 3}, {3, 40}}},
};

class RaggedAttention : public ::testing::TestWithParam<RaggedCase> {};

/// Each span gives what it gives alone, and rows outside the spans give 0.
TEST_P(RaggedAttention, GivesWhatEachSpanGivesAlone) {
  const RaggedCase& test = GetParam();
  const std::int64_t queries = test.queries.back().end + 2, keys = test.keys.back().end + 2;
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f64, 1e-14), std::pair(DType::f32, 1e-6), std::pair(DType::bf16, 1e-2)}) {
    const auto leaf = [&, type = dtype](std::int64_t rows, std::int64_t width, std::uint64_t seed) {
      return Var::leaf(rounded({rows, 2, width}, seed).cast(type));
    };
    const Var q = leaf(queries, 16, 1), k = leaf(keys, 16, 2), v = leaf(keys, 32, 3);
    const Tensor dy = rounded({queries, 2, 32}, 4).cast(dtype);
    Tape tape;
    const Var out = attention(q, k, v,
                              {.scale = 0.3,
                               .out = dtype,
                               .queries = RowSpans(test.queries, cpu_device),
                               .keys = RowSpans(test.keys, cpu_device)});
    tape.backward(out, dy);

    const std::vector<Tensor> got{out.value(), q.grad(), k.grad(), v.grad()};
    std::vector<Tensor> expected;
    for (const Tensor& x : got) expected.push_back(zeros_like(x));
    for (std::size_t i = 0; i < test.queries.size(); ++i) {
      const auto part = [](const Tensor& x, const RowRange& rows) {
        return x.slice(0, rows.begin, rows.end).contiguous().transpose(0, 1).contiguous();
      };
      const auto alone = [&](const Var& x, const RowRange& rows) {
        const Tensor own = part(x.value(), rows);
        return Var::leaf(own.reshape(own.shape().with(0, 1)));
      };
      const RowRange &own_queries = test.queries[i], &own_keys = test.keys[i];
      const Var one_q = alone(q, own_queries), one_k = alone(k, own_keys),
                one_v = alone(v, own_keys);
      Tape single;
      const Var one = attention(one_q, one_k, one_v, {.scale = 0.3, .out = dtype});
      const Tensor one_dy = part(dy, own_queries);
      single.backward(one, one_dy.reshape(one_dy.shape().with(0, 1)));
      const auto store = [](const Tensor& x, const Tensor& into, const RowRange& rows) {
        if (rows.size() > 0)
          kernels::copy(x.contiguous().reshape(x.shape().without(0)).transpose(0, 1),
                        into.slice(0, rows.begin, rows.end));
      };
      store(one.value(), expected[0], own_queries);
      store(one_q.grad(), expected[1], own_queries);
      store(one_k.grad(), expected[2], own_keys);
      store(one_v.grad(), expected[3], own_keys);
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(max_difference(got[i], expected[i]), tolerance * largest(expected[i]))
          << "result " << i << " in " << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Spans, RaggedAttention, ::testing::ValuesIn(ragged_cases), case_name);

}  // namespace
}  // namespace nystrom::testing
