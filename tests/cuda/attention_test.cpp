// Fused attention, forward and backward, compared with the CPU's f64 kernel on the same rounded
// numbers.
#include <gtest/gtest.h>

#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  std::int64_t samples, heads, queries, keys, width;
  enum class Mask { none, holes, empty_sample } mask = Mask::none;
  EmptyRows empty = EmptyRows::zero;
  /// Landmarks and their results are f32 next to 16-bit tensors.
  bool f32_queries = false, f32_keys = false, f32_values = false;
  double sharpness = 1;
  std::int64_t reach = Scoring::all_keys;
};

/// Attention of `rows` rows to those within reach.
Case window(const char* name, std::int64_t rows, std::int64_t width, std::int64_t reach) {
  Case c{name, 2, 2, rows, rows, width};
  c.reach = reach;
  return c;
}

using Mask = Case::Mask;
const Case cases[] = {
    {"one_tile", 1, 1, 64, 64, 64},
    {"parts_of_tiles", 2, 3, 37, 101, 64},
    {"narrow", 2, 2, 70, 130, 32},
    {"wide", 1, 2, 65, 129, 128},
    {"one_key", 1, 2, 40, 1, 32},
    {"one_query", 1, 2, 1, 200, 32},
    {"several_tiles_on_both_sides", 1, 2, 150, 200, 64},
    {"holes", 2, 2, 90, 140, 32, Mask::holes},
    {"holes_in_landmark_attention", 2, 2, 64, 140, 32, Mask::holes},
    {"sample_without_keys_gives_zero", 2, 1, 40, 70, 32, Mask::empty_sample},
    {"sample_without_keys_gives_the_mean", 2, 1, 40, 70, 32, Mask::empty_sample,
     EmptyRows::uniform},
    {"landmarks_ask", 2, 2, 16, 300, 64, Mask::none, EmptyRows::zero, true},
    {"landmarks_answer", 2, 2, 300, 16, 64, Mask::none, EmptyRows::zero, false, true, true},
    {"landmarks_ask_in_parts", 1, 1, 64, 64 * 9 + 5, 32, Mask::holes, EmptyRows::zero, true},
    {"landmarks_answer_in_parts", 1, 1, 64 * 9 + 5, 64, 32, Mask::none, EmptyRows::zero, false,
     true, true},
    {"sharp", 1, 2, 64, 200, 64, Mask::none, EmptyRows::zero, false, false, false, 8},
    window("window_within_a_tile", 50, 32, 5),
    window("window_of_tiles", 64 * 5 + 7, 64, 70),
    window("window_of_a_tile", 200, 128, 64),
    window("window_of_one_row", 130, 32, 0),
    window("window_of_all_but_one", 70, 32, 68),
};

/// [b, h, n, d] in the model's layout [b, n, h, d].
Tensor heads_of(const Case& c, std::int64_t rows, std::uint64_t seed, double scale = 1) {
  return half_normal({c.samples, rows, c.heads, c.width}, seed, scale);
}

Tensor key_mask(const Case& c) {
  if (c.mask == Mask::none) return {};
  std::vector<std::uint8_t> values;
  for (std::int64_t b = 0; b < c.samples; ++b) {
    for (std::int64_t j = 0; j < c.keys; ++j)
      values.push_back(c.mask == Mask::empty_sample ? b == 0
                                                    : (j + b) % 3 != 0 && (j < 64 || j > 90));
  }
  return Tensor::from(values, {c.samples, c.keys});
}

struct Results {
  Tensor out, log_sum_exp, dq, dk, dv;
};

struct Types {
  DType q, k, v, out;
};

Results run(const Case& c, Types types, Device device) {
  const auto place = [&](const Tensor& x, DType dtype) {
    return x.cast(dtype).to(device).transpose(1, 2);
  };
  const Tensor q = place(heads_of(c, c.queries, 1, c.sharpness), types.q),
               k = place(heads_of(c, c.keys, 2), types.k),
               v = place(heads_of(c, c.keys, 3), types.v),
               dout = place(heads_of(c, c.queries, 4), types.out);
  const Tensor mask = key_mask(c).to(device);
  const auto like = [](const Tensor& x) {
    return Tensor::empty(x.transpose(1, 2).shape(), x.dtype(), x.device()).transpose(1, 2);
  };
  Results r{like(dout),
            Tensor::empty({c.samples, c.heads, c.queries}, accumulate_dtype(types.q), device),
            like(q), like(k), like(v)};
  const Scoring scale(1 / std::sqrt(static_cast<double>(c.width)), c.reach);
  kernels::attention(q, k, v, Spans{}, Spans{}, mask, c.empty, scale, r.out, r.log_sum_exp);
  kernels::attention_grad(q, k, v, Spans{}, Spans{}, mask, c.empty, scale, r.out, r.log_sum_exp,
                          dout, r.dq, r.dk, r.dv);
  return r;
}

class FusedAttentionTest : public GpuTest<::testing::TestWithParam<std::tuple<Case, DType>>> {
 protected:
  Results on_gpu() const {
    const auto& [c, half] = GetParam();
    const auto type = [half = half](bool wide) { return wide ? DType::f32 : half; };
    return run(c, {type(c.f32_queries), type(c.f32_keys), type(c.f32_values), type(c.f32_queries)},
               gpu);
  }
};

TEST_P(FusedAttentionTest, EqualsTheCpusF64) {
  const Results got = on_gpu();
  const Results expected =
      run(std::get<Case>(GetParam()), {DType::f64, DType::f64, DType::f64, DType::f64}, cpu_device);
  const double tolerance = std::get<DType>(GetParam()) == DType::bf16 ? 2e-2 : 2.5e-3;
  EXPECT_LE(relative_difference(got.out, expected.out), tolerance / 2) << "out";
  EXPECT_LE(relative_difference(got.dq, expected.dq), tolerance) << "dq";
  EXPECT_LE(relative_difference(got.dk, expected.dk), tolerance) << "dk";
  EXPECT_LE(relative_difference(got.dv, expected.dv), tolerance) << "dv";
  const auto lse = got.log_sum_exp.to_doubles(), right = expected.log_sum_exp.to_doubles();
  for (std::size_t i = 0; i < lse.size(); ++i) {
    if (std::isfinite(right[i])) {
      ASSERT_NEAR(lse[i], right[i], 1e-4) << i;
    } else {
      ASSERT_EQ(lse[i], right[i]) << i;
    }
  }
}

TEST_P(FusedAttentionTest, TwoRunsGiveEqualBits) {
  const Results first = on_gpu();
  run_threads_backward();
  const Results second = on_gpu();
  EXPECT_EQ(first.out.to_doubles(), second.out.to_doubles());
  EXPECT_EQ(first.dq.to_doubles(), second.dq.to_doubles());
  EXPECT_EQ(first.dk.to_doubles(), second.dk.to_doubles());
  EXPECT_EQ(first.dv.to_doubles(), second.dv.to_doubles());
}

INSTANTIATE_TEST_SUITE_P(Cases, FusedAttentionTest,
                         ::testing::Combine(::testing::ValuesIn(cases),
                                            ::testing::Values(DType::bf16, DType::f16)),
                         case_and_type);

}  // namespace
}  // namespace nystrom::testing
