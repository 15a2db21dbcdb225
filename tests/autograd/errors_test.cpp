// Error messages of every op for inputs that do not fit.
#include <gtest/gtest.h>

#include <concepts>
#include <functional>

#include "autograd/ops.h"
#include "tests/support/errors.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

/// Sizes and values are given without braces: clang-format breaks the lines of a lambda with them.
Var x(DType dtype, auto... sizes) { return Tensor::zeros({sizes...}, dtype); }
Var x(std::same_as<int> auto... sizes) { return x(DType::f32, sizes...); }
Tensor u8(auto... sizes) { return Tensor::zeros({sizes...}, DType::u8); }

constexpr DType f64 = DType::f64, half = DType::bf16;

struct ErrorCase {
  std::function<void()> call;
  const char* message;
};

void expect(const std::vector<ErrorCase>& cases) {
  for (const auto& [call, message] : cases) EXPECT_EQ(message_of(call), message);
}

TEST(OpErrors, Elementwise) {
  expect({
      {[] { x(2) + x(3); }, "shapes [2] and [3] do not broadcast"},
      {[] { x(2) + x(f64, 2); }, "add: both inputs must have one type; got f32 and f64"},
      {[] { Var() + x(2); }, "add: got an undefined tensor"},
      {[] { relu(Var()); }, "unary: got an undefined tensor"},
      {[] { sum(Var()); }, "sum_middle: got an undefined tensor"},
      {[] { x(2) - x(f64, 2); }, "subtract: both inputs must have one type; got f32 and f64"},
      {[] { x(half, 2) * x(2); }, "multiply: both inputs must have one type; got bf16 and f32"},
      {[] { x(2) / x(f64, 2); }, "divide: both inputs must have one type; got f32 and f64"},
      {[] { dropout(x(2, 3), 1, {}, ints(0, 1)); },
       "dropout: p must be at least 0 and below 1, got 1"},
      {[] { dropout(x(2, 3), -0.5, {}, ints(0, 1)); },
       "dropout: p must be at least 0 and below 1, got -0.5"},
      {[] { dropout(x(2, 3), 0.5, {}, ints(0)); },
       "dropout: expected one i64 sample id a row of [2, 3], got i64 of shape [1]"},
      {[] { dropout(x(2, 3), 0.5, {}, x(2).value()); },
       "dropout: expected one i64 sample id a row of [2, 3], got f32 of shape [2]"},
      {[] { dropout(x(2, 3), 0.5, {}, {}); },
       "dropout: dropout needs sample_ids, which decide its mask"},
      {[] { embedding(x(3, 2), ints(0), 3); },
       "embedding: padding_row 3; expected -1 for none, or one of the table's 3 rows"},
      {[] { embedding(x(3, 2), ints(0), -2); },
       "embedding: padding_row -2; expected -1 for none, or one of the table's 3 rows"},
      {[] { layer_norm(x(2, 3), x(3), {}, -1); },
       "layer_norm: expected a finite epsilon of at least 0, got -1"},
      {[] { Var::leaf(ints(1)); }, "a leaf must have a floating type, got i64"},
  });
}

TEST(OpErrors, Products) {
  expect({
      {[] { linear(x(2, 3), x(4, 5)); },
       "linear: x [2, 3] does not fit the weight [4, 5]; expected [out, in] for x […, in]"},
      {[] { linear(x(2, 3), x(4, 3), x(3)); }, "linear: bias [3] does not fit the weight [4, 3]"},
      {[] { linear(x(2, 3), x(half, 4, 3)); }, "linear: x is f32, but the weight bf16"},
      {[] { matmul(x(2, 3), x(2, 3)); },
       "matmul: [2, 3] and [2, 3] do not match; expected […, m, k] and […, k, n]"},
      {[] { matmul(x(3), x(3, 2)); },
       "matmul: [3] and [3, 2] do not match; expected […, m, k] and […, k, n]"},
      {[] { matmul(x(2, 2, 3), x(5, 3, 2)); }, "shapes [2] and [5] do not broadcast"},
      {[] { matmul(x(2, 3), x(f64, 3, 2)); },
       "matmul: both inputs must have one floating type; got f32 and f64"},
      {[] { matmul(x(DType::i64, 2, 3), x(DType::i64, 3, 2)); },
       "matmul: both inputs must have one floating type; got i64 and i64"},
      {[] { linear(x(DType::i32, 2, 3), x(DType::i32, 4, 3)); },
       "linear: x is i32, but the weight i32"},
      {[] { linear(x(2, 3), x(4, 3), u8(4)); }, "linear: the bias is u8"},
      {[] {
         joint_linear(x(2, 3), {x(4, 3), x(4, 3)}, {x(4), x(f64, 4)});
       },
       "joint_linear: biases are f32 and f64"},
  });
}

TEST(OpErrors, Attention) {
  const auto call = [](const Var& q, const Var& k, const Var& v, const Tensor& mask = {}) {
    return [=] { attention(q, k, v, {.out = DType::f32, .key_mask = mask}); };
  };
  const Var q = x(1, 2, 3, 4), k = x(1, 2, 5, 4);
  expect({
      {[] { softmax(x(2, 0)); },
       "softmax: needs a last axis of at least one element, got shape [2, 0]"},
      {call(x(2, 3), k, k), "attention: queries are [2, 3], expected [b, h, n, d]"},
      {call(q, x(2, 5, 4), k), "attention: keys are [2, 5, 4], expected [b, h, n, d]"},
      {call(q, x(1, 2, 5, 6), k),
       "attention: queries [1, 2, 3, 4] and keys [1, 2, 5, 6] do not match"},
      {call(q, k, x(1, 2, 6, 4)),
       "attention: keys [1, 2, 5, 4] and values [1, 2, 6, 4] do not match"},
      {call(q, k, x(f64, 1, 2, 5, 4)),
       "attention: types f32, f32, f64 → f32 do not share an accumulate type"},
      {call(q, k, k, u8(1, 4)), "attention: the key mask is u8 [1, 4], expected u8 [1, 5]"},
      {call(q, k, k, ints(1)), "attention: the key mask is i64 [1], expected u8 [1, 5]"},
      {[=] { attention(q, k, k, {.others = q}); },
       "attention: the other rows are f32 [1, 2, 3, 4], expected those of ragged queries "
       "[1, 2, 3, 4] in f32"},
      {[] {
         const Var rows = x(6, 1, 4);
         attention(rows, rows, rows,
                   {.queries = RowSpans({{0, 3}, {3, 6}}, cpu_device),
                    .keys = RowSpans({{0, 2}, {2, 6}}, cpu_device),
                    .reach = 1});
       },
       "attention: with a reach of 1, queries [6, 1, 4] and keys [6, 1, 4] are of the same rows, "
       "none masked"},
  });
}

TEST(OpErrors, PartsOfNystromAttention) {
  const Var tokens = x(2, 5, 3), heads = x(2, 5, 3, 4);
  expect({
      {[] { segment_means(x(2, 3), {}, 2); }, "segment_means: expected [b, n, c], got [2, 3]"},
      {[=] { segment_means(tokens, {}, 0); }, "segment_means: needs at least one segment, got 0"},
      {[] {
         segment_means(x(6, 3), RowSpans({{0, 4}, {4, 7}}, cpu_device), 2);
       },
       "segment_means: the spans end at row 7, but there are 6 rows"},
      {[] { pseudo_inverse_iterative(x(2, 3), 1); },
       "pseudo_inverse_iterative: expected square matrices […, m, m], got [2, 3]"},
      {[] { pseudo_inverse_iterative(x(3, 3), -1); },
       "pseudo_inverse_iterative: needs 0 to 1048576 iterations, got -1"},
      {[] { pseudo_inverse_exact(x(half, 3, 3)); },
       "pseudo_inverse_exact: bf16 is too coarse for an inverse; cast to f32 first"},
      {[=] { sequence_conv(tokens, x(3, 3), {}); },
       "sequence_conv: expected [b, n, h, d], got [2, 5, 3]"},
      {[=] { sequence_conv(heads, x(3, 4), {}); },
       "sequence_conv: the weight is [3, 4], expected [3, k] with k odd"},
      {[=] { sequence_conv(heads, x(2, 3), {}); },
       "sequence_conv: the weight is [2, 3], expected [3, k] with k odd"},
      {[=] { sequence_conv(heads, x(half, 3, 3), {}); },
       "sequence_conv: x is f32, but the weight bf16"},
      {[] { layer_norm(x(2, 0), x(0), x(0), 1e-5); },
       "layer_norm: needs a last axis of at least one element, got shape [2, 0]"},
      {[] { layer_norm(x(2, 3), x(3), x(2), 1e-5); },
       "layer_norm: gamma [3] and beta [2] do not fit x [2, 3]"},
      {[] { layer_norm(x(half, 2, 3), x(3), x(3), 1e-5); },
       "layer_norm: x is bf16, but gamma f32 and beta f32"},
  });
}

TEST(OpErrors, NystromAttention) {
  const auto call = [](const Tensor& mask, const Var& bias, const Var& taps = {},
                       std::int64_t landmarks = 3) {
    return [=] {
      NystromOptions options{.heads = 2, .landmarks = landmarks, .key_mask = mask};
      nystrom_attention(NystromInputs::joint(x(2, 6, 4), x(2, 6, 12), 2, {{x(4, 4)}, {bias}}, taps),
                        options);
    };
  };
  expect({
      {call(Tensor::zeros({2, 6}, DType::i64), x(4)),
       "nystrom_attention: the key mask is i64 [2, 6], expected u8 [2, 6]"},
      {call(u8(1, 2), x(4)), "nystrom_attention: the key mask is u8 [1, 2], expected u8 [2, 6]"},
      {call({}, x(f64, 4)),
       "nystrom_attention: weights, biases and taps need the type of hidden, f32"},
      {call({}, x(4), x(f64, 2, 3)),
       "nystrom_attention: weights, biases and taps need the type of hidden, f32"},
      {call({}, x(4), {}, std::int64_t{1} << 62),
       "nystrom_attention: needs 1 to 1048576 landmarks, got 4611686018427387904"},
  });
}

TEST(OpErrors, Rows) {
  expect({
      {[] { embedding(x(2, 3, 4), ints(0)); }, "embedding: expected a table [n, c], got [2, 3, 4]"},
      {[] { embedding(x(2, 3), ints(0, 2)); }, "embedding: index 2 at place 1 lies outside 0 … 1"},
      {[] { embedding(x(2, 3), ints(-1)); }, "embedding: index -1 at place 0 lies outside 0 … 1"},
      {[] { embedding(x(2, 3), u8(1)); }, "embedding: indices must be i64, got u8"},
      {[] { gather_rows(x(2, 3), ints(-2)); },
       "gather_rows: index -2 at place 0 lies outside -1 … 1"},
      {[] {
         gather_rows(x(2, 3), int_tensor({0, 1}, {1, 2}));
       },
       "gather_rows: expected x [n, …] and indices [r]; got [2, 3] and [1, 2]"},
  });
}

TEST(OpErrors, Shapes) {
  expect({
      {[] { reshape(x(2, 3), {5}); }, "cannot reshape [2, 3] to [5]"},
      {[] { transpose(x(2, 3), 0, 2); }, "axis 2 does not exist in shape [2, 3]"},
      {[] { slice(x(2, 3), 1, 0, 4); }, "slice 0…4 of axis 1 lies outside shape [2, 3]"},
      {[] { concat({}, 0); }, "concat: needs at least one part"},
      {[] {
         concat({x(2, 3), x(2, 4)}, 0);
       },
       "concat: part f32 [2, 4] does not fit f32 [2, 3] along axis 0"},
      {[] {
         concat({x(2, 3), x(f64, 2, 3)}, 0);
       },
       "concat: part f64 [2, 3] does not fit f32 [2, 3] along axis 0"},
      {[] { sum(x(2, 3), 2); }, "axis 2 does not exist in shape [2, 3]"},
      {[] { mean(x(2, 0), 1); }, "mean: nothing to average"},
  });
}

TEST(RotaryTable, MayBeEmptyAndWide) {
  EXPECT_EQ(rotary_table(0, 4, 100).shape(), (Shape{0, 2, 2}));
  EXPECT_EQ(rotary_frequencies(1 << 20, 100).size(), 1U << 19);
}

TEST(OpErrors, SizesBeyond64Bits) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  expect({
      {[=] {
         reshape(x(4), {4, most + 1});
       },
       "the shape [4, 4611686018427387905] has too many elements"},
      {[=] { segment_means(x(1, 3, 1), {}, std::int64_t{1} << 59); },
       "a tensor of shape [1, 576460752303423488, 1] does not fit into memory"},
      {[=] { segment_means(x(1, 4, 8), {}, most); },
       "the shape [1, 4611686018427387904, 8] has too many elements"},
      {[=] { pseudo_inverse_iterative(x(4, 4), most); },
       "pseudo_inverse_iterative: needs 0 to 1048576 iterations, got 4611686018427387904"},
      {[=] { split_heads(x(1, 2, 4), most, 0, 4); },
       "split_heads: x [1, 2, 4], heads 4611686018427387904, part 0 of 4"},
      {[=] { Tensor::empty({most}, DType::f32); },
       "a tensor of shape [4611686018427387904] does not fit into memory"},
  });
}

TEST(OpErrors, Losses) {
  expect({
      {[] { cross_entropy(x(2, 3), ints(0)); },
       "cross_entropy: expected logits [r, c] and i64 labels [r]; got [2, 3] and i64 [1]"},
      {[] { cross_entropy(x(2, 3), u8(2)); },
       "cross_entropy: expected logits [r, c] and i64 labels [r]; got [2, 3] and u8 [2]"},
      {[] { cross_entropy(x(2, 3), ints(0, 3)); },
       "cross_entropy: label 3 at place 1 is neither -100 nor in 0 … 2"},
      {[] { cross_entropy(x(2, 3), ints(-1, 0)); },
       "cross_entropy: label -1 at place 0 is neither -100 nor in 0 … 2"},
      {[] { cross_entropy(x(0, 0), ints()); },
       "cross_entropy: needs at least one class, got logits [0, 0]"},
      {[] { distillation_loss(x(2, 3), x(2, 3).value(), 0, 2); },
       "distillation_loss: expected a positive temperature, at most 1e9, and normaliser, got 0 and "
       "2"},
      {[] { distillation_loss(x(2, 3), x(2, 3).value(), 1e30, 2); },
       "distillation_loss: expected a positive temperature, at most 1e9, and normaliser, got 1e+30 "
       "and 2"},
      {[] { cross_entropy(x(2, 3), ints(0, 1), -1); },
       "cross_entropy: expected a finite normaliser and z_loss of at least 0, got -1 and 0"},
      {[] { cross_entropy(x(2, 3), ints(0, 1), 0, {}, std::nan("")); },
       "cross_entropy: expected a finite normaliser and z_loss of at least 0, got 0 and nan"},
      {[] { rotary_table(2, 4, 1e-50); },
       "rotary_table: expected an even width from 2 to 1048576 and a theta from 1e-30 to 1e30, got "
       "4 and "
       "1e-50"},
      {[] { rotary_table(-1, 4, 1); }, "rotary_table: expected 0 to 16777216 places, got -1"},
      {[] { rotary_table(3, 5, 1); },
       "rotary_table: expected an even width from 2 to 1048576 and a theta from 1e-30 to 1e30, got "
       "5 and 1"},
      {[] { distillation_loss(x(2, 3), u8(2, 3), 1, 2); },
       "distillation_loss: expected logits and target [r, c] of floating types, got f32 [2, 3] and "
       "u8 [2, 3]"},
      {[] { mean_squared_error(x(2), Tensor::zeros({3}, DType::f32)); },
       "mean_squared_error: the target is [3], expected x's shape [2]"},
  });
}

}  // namespace
}  // namespace nystrom::testing
