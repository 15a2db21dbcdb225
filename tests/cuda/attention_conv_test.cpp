// Attention and a convolution in one kernel, forward and backward, compared with the CPU's separate
// f64 kernels on the same rounded numbers.
#include <gtest/gtest.h>

#include <limits>

#include "core/cuda/runtime.h"
#include "core/kernels.h"
#include "tests/cuda/device.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Case : Named {
  std::int64_t samples, length, heads, width, landmarks, taps;
  bool masked = false;  ///< some keys
  std::int64_t launches = 1, backward_launches = 2;
};

const Case cases[] = {
    {"usual", 2, 130, 2, 64, 64, 33},
    {"below_a_tile", 2, 40, 2, 64, 32, 33},
    {"one_row_more_than_a_tile", 1, 65, 2, 64, 32, 33, true},
    {"whole_tiles", 1, 128, 1, 64, 64, 65, true},
    {"narrow", 2, 130, 2, 32, 32, 33, true},
    {"wide", 1, 130, 2, 128, 64, 33, true},
    {"one_tap", 1, 65, 2, 32, 20, 1, true},
    {"three_taps", 2, 70, 1, 128, 32, 3},
    {"many_taps", 1, 130, 1, 32, 64, 65, true},
    {"longer_than_the_sequence", 1, 9, 2, 32, 5, 33, true},
    {"loop_in_parts", 1, 64 * 9 + 5, 1, 32, 32, 33, true, 1, 3},
    {"more_landmarks_than_a_tile", 1, 130, 1, 32, 100, 33, true, 2, 6},
    {"landmarks_in_parts", 1, 30, 1, 32, 64 * 8, 3, true, 3, 6},
    {"no_tensor_cores", 1, 40, 2, 16, 10, 5, true, 2, 5},
    {"no_room_for_the_backward_pass", 1, 20, 1, 128, 10, 513, false, 1, 4},
};

/// Whether a token is left out as a key.
bool is_masked(std::int64_t token) {
  return token % 3 == 2 || (token > 60 && token < 80) || token == 17;
}
Tensor key_mask(const Case& c) {
  if (!c.masked) return {};
  std::vector<std::uint8_t> valid;
  for (std::int64_t i = 0; i < c.samples * c.length; ++i)
    valid.push_back(is_masked(i % c.length) ? 0 : 1);
  return Tensor::from(valid, {c.samples, c.length});
}

/// Queries, keys and values [b, n, 3 h, d], with NaNs as the keys that nobody sees. Their values
/// are convolved.
Tensor tokens(const Case& c) {
  const Tensor x = half_normal({c.samples, c.length, 3 * c.heads, c.width}, 1);
  if (!c.masked) return x;
  std::vector<double> values = x.to_doubles();
  const std::int64_t part = c.heads * c.width;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    if (i / part % 3 == 1 && is_masked(i / part / 3 % c.length))
      values[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
  return Tensor::from(values, x.shape());
}

struct Results {
  Tensor out, log_sum_exp, dq, dk, dv, dw;
  std::int64_t launches = 0, backward_launches = 0;
};

/// The operands: half precision is that of tokens, `sums` that of landmarks' values and results.
struct Operands {
  Tensor qkv, queries, keys, y, dvalues, taps, dy, key_mask;
  Tensor part(std::int64_t i) const {
    const std::int64_t heads = qkv.dim(2) / 3;
    return qkv.slice(2, i * heads, (i + 1) * heads).transpose(1, 2);
  }
};
Operands operands(const Case& c, DType half, Device device) {
  const auto place = [&](const Tensor& x, DType dtype) { return x.cast(dtype).to(device); };
  const DType sums = accumulate_dtype(half);
  const Shape landmarks{c.samples, c.heads, c.landmarks, c.width};
  return {place(tokens(c), half),
          place(half_normal(landmarks, 2), half),
          place(half_normal(landmarks, 3), half),
          place(half_normal(landmarks, 4), sums),
          place(half_normal(landmarks, 5), sums),
          place(half_normal({c.heads, c.taps}, 6), half),
          place(half_normal({c.samples, c.length, c.heads, c.width}, 7), half),
          key_mask(c).to(device)};
}

const double scale = 0.2;

/// What the operands lead to, with the results' memory, before the kernels under test.
struct Prepared {
  Results r;
  Tensor values, values_sum;
};
Prepared prepare(const Case& c, const Operands& o) {
  Prepared p;
  const DType sums = o.y.dtype();
  const Device device = o.qkv.device();
  p.values = empty_like(o.y);
  p.values_sum = Tensor::empty({c.samples, c.heads, c.landmarks}, sums, device);
  kernels::attention(o.queries, o.part(1), o.part(2), Spans{}, Spans{}, o.key_mask, EmptyRows::zero,
                     scale, p.values, p.values_sum);
  p.r.out = empty_like(o.dy);
  p.r.log_sum_exp = Tensor::empty({c.samples, c.heads, c.length}, sums, device);
  p.r.dq = empty_like(o.y);
  p.r.dk = empty_like(o.dy);
  p.r.dv = empty_like(o.dy);
  p.r.dw = Tensor::full({c.heads, c.taps}, 1, sums, device);
  return p;
}

Results together(const Case& c, DType half, Device device) {
  const Operands o = operands(c, half, device);
  auto [r, values, values_sum] = prepare(c, o);
  std::int64_t before = cuda::launches();
  kernels::attention_with_conv(o.part(0), o.keys, o.y, Spans{}, Spans{}, scale, o.part(2), o.taps,
                               r.out.transpose(1, 2), r.log_sum_exp);
  r.launches = cuda::launches() - before;
  before = cuda::launches();
  kernels::attention_grad_with_conv(o.queries, o.part(1), o.part(2), Spans{}, Spans{}, o.key_mask,
                                    EmptyRows::zero, scale, values, values_sum, o.dvalues, o.taps,
                                    o.dy.transpose(1, 2), r.dq, r.dk.transpose(1, 2),
                                    r.dv.transpose(1, 2), r.dw);
  r.backward_launches = cuda::launches() - before;
  return r;
}

/// The same by the kernels of attention and of the convolution, on the CPU in f64.
Results apart(const Case& c) {
  const Operands o = operands(c, DType::f64, cpu_device);
  auto [r, values, values_sum] = prepare(c, o);
  Tensor attended = empty_like(r.out), conv = empty_like(r.out);
  kernels::attention(o.part(0), o.keys, o.y, Spans{}, Spans{}, CView{}, EmptyRows::zero, scale,
                     attended.transpose(1, 2), r.log_sum_exp);
  const Tensor v = o.part(2);
  kernels::sequence_conv(v, o.taps, Spans{}, CView{}, conv.transpose(1, 2));
  kernels::binary(Binary::add, attended, conv, r.out);
  kernels::attention_grad(o.queries, o.part(1), o.part(2), Spans{}, Spans{}, o.key_mask,
                          EmptyRows::zero, scale, values, values_sum, o.dvalues, r.dq,
                          r.dk.transpose(1, 2), attended.transpose(1, 2));
  kernels::sequence_conv_grad(v, o.taps, Spans{}, o.dy.transpose(1, 2), CView{},
                              conv.transpose(1, 2), r.dw);
  kernels::binary(Binary::add, attended, conv, r.dv);
  return r;
}

class AttentionWithConvTest : public GpuTest<::testing::TestWithParam<std::tuple<Case, DType>>> {
 protected:
  Case test() const { return std::get<Case>(GetParam()); }
  DType half() const { return std::get<DType>(GetParam()); }
};

TEST_P(AttentionWithConvTest, EqualsTheCpusSeparateKernelsInF64) {
  const Results got = together(test(), half(), gpu), expected = apart(test());
  const double tolerance = half() == DType::bf16 ? 2e-2 : 2.5e-3;  // as attention's alone
  EXPECT_LE(relative_difference(got.out, expected.out), tolerance / 2) << "out";
  EXPECT_LE(relative_difference(got.log_sum_exp, expected.log_sum_exp), 1e-5) << "log_sum_exp";
  EXPECT_LE(relative_difference(got.dq, expected.dq), tolerance) << "dq";
  EXPECT_LE(relative_difference(got.dk, expected.dk), tolerance) << "dk";
  EXPECT_LE(relative_difference(got.dv, expected.dv), tolerance) << "dv";
  EXPECT_LE(relative_difference(got.dw, expected.dw), 1e-5) << "dw";
  EXPECT_EQ(got.launches, test().launches);
  EXPECT_EQ(got.backward_launches, test().backward_launches);
}

TEST_P(AttentionWithConvTest, TwoRunsGiveEqualBits) {
  const Results first = together(test(), half(), gpu);
  run_threads_backward();
  const Results second = together(test(), half(), gpu);
  EXPECT_EQ(first.out.to_doubles(), second.out.to_doubles());
  EXPECT_EQ(first.dq.to_doubles(), second.dq.to_doubles());
  EXPECT_EQ(first.dk.to_doubles(), second.dk.to_doubles());
  EXPECT_EQ(first.dv.to_doubles(), second.dv.to_doubles());
  EXPECT_EQ(first.dw.to_doubles(), second.dw.to_doubles());
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionWithConvTest,
                         ::testing::Combine(::testing::ValuesIn(cases),
                                            ::testing::Values(DType::bf16, DType::f16)),
                         case_and_type);

/// The gradients of attention to few keys, with and without its result.
class FewKeysTest : public GpuTest<::testing::TestWithParam<std::tuple<DType, bool>>> {
 protected:
  static std::vector<Tensor> gradients(DType dtype, Device device, EmptyRows empty, bool with_out) {
    const Shape shape{2, 2, 70, 32}, keys{2, 2, 41, 32};
    const auto place = [&](const Shape& s, std::uint64_t seed) {
      return half_normal(s, seed).cast(dtype).to(device);
    };
    const Tensor q = place(shape, 1), k = place(keys, 2), v = place(keys, 3), dy = place(shape, 4);
    std::vector<std::uint8_t> valid(82);  // the second sample has no key
    for (std::size_t i = 0; i < 41; ++i) valid[i] = i % 3 != 0;
    const Tensor mask = Tensor::from(valid, {2, 41}).to(device);
    Tensor out = empty_like(q), sum = Tensor::empty({2, 2, 70}, accumulate_dtype(dtype), device);
    std::vector<Tensor> d{empty_like(q), empty_like(k), empty_like(v)};
    kernels::attention(q, k, v, Spans{}, Spans{}, mask, empty, 0.3, out, sum);
    kernels::attention_grad(q, k, v, Spans{}, Spans{}, mask, empty, 0.3, with_out ? out : Tensor(),
                            sum, dy, d[0], d[1], d[2]);
    return d;
  }
};

TEST_P(FewKeysTest, NeedNoResultForTheGradient) {
  const auto [dtype, on_gpu] = GetParam();
  const double tolerance = dtype == DType::f64    ? 1e-13
                           : dtype == DType::f32  ? 1e-5
                           : dtype == DType::bf16 ? 2e-2
                                                  : 2.5e-3;
  for (const EmptyRows empty : {EmptyRows::zero, EmptyRows::uniform}) {
    const auto expected = gradients(DType::f64, cpu_device, empty, true),
               got = gradients(dtype, on_gpu ? gpu : cpu_device, empty, false);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_LE(relative_difference(got[i], expected[i]), tolerance) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, FewKeysTest,
    ::testing::Values(std::tuple(DType::f64, false), std::tuple(DType::f32, false),
                      std::tuple(DType::bf16, false), std::tuple(DType::f64, true),
                      std::tuple(DType::f32, true), std::tuple(DType::bf16, true),
                      std::tuple(DType::f16, true)),
    [](const auto& test) {
      return std::string(name_of(std::get<DType>(test.param))) +
             (std::get<bool>(test.param) ? "_gpu" : "_cpu");
    });

}  // namespace
}  // namespace nystrom::testing
