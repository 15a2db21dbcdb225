#include "tests/support/cases.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

const Tensor holes = mask_tensor({1, 1, 0, 1, 1, 0, 1, 1, 0,  //
                                  1, 0, 1, 1, 1, 1, 1, 0, 1},
                                 {2, 9});
const Tensor one_empty = mask_tensor({1, 0, 1, 1, 1, 0, 1, 1, 1,  //
                                      0, 0, 0, 0, 0, 0, 0, 0, 0},
                                     {2, 9});
const Tensor long_mask = [] {
  std::vector<std::uint8_t> values(2 * 150, 1);
  for (int t = 60; t < 150; ++t) values[t] = t < 64;  // all of the second block of keys is masked
  values[150 + 3] = 0;
  return mask_tensor(values, {2, 150});
}();

/// Three spans of 14 rows, with rows between them.
const RowSpans queries({{0, 5}, {5, 6}, {8, 14}}, cpu_device),
    keys({{1, 5}, {7, 7}, {7, 12}}, cpu_device);

/// Ids of three samples, and of three rows of samples.
const Tensor ids = ints(4, 9, 100), rows = int_tensor({4, 9, 4, 2, 100, 0}, {3, 2});

const DropoutOptions dropped{0.3, {7, 3, 2}, ids};

/// Short, so that a case fits into a line.
using V = const Vars&;

/// A row-stochastic matrix far from rank one, like the landmark matrices of a trained model.
Var stochastic(const Var& x) { return softmax(3 * x); }

Var attend(V v, double scale, const Tensor& mask = {}) {
  return attention(v[0], v[1], v[2], {.scale = scale, .out = v[0].dtype(), .key_mask = mask});
}

Var attend_ragged(V v, const RowSpans& q, const RowSpans& k, std::int64_t reach = Scoring::all_keys,
                  const Var& others = {}) {
  return attention(v[0], v[1], v[2],
                   {.scale = 0.7,
                    .out = v[0].dtype(),
                    .queries = q,
                    .keys = k,
                    .reach = reach,
                    .others = others});
}

/// A table for rotate(), in the type that x needs.
Tensor rotary_angles(const Var& x, std::int64_t places, std::int64_t width) {
  return rotary_table(places, width, 100).cast(accumulate_dtype(x.dtype()));
}

/// A case. Unlike those of braces, clang-format gives its parts no lines of their own.
OpCase op(const char* name, std::vector<Shape> inputs, std::function<Var(V)> f) {
  return {name, std::move(inputs), std::move(f)};
}
/// One that low precision changes completely.
OpCase op(const char* name, std::vector<Shape> inputs, double tolerance, std::function<Var(V)> f) {
  return {name, std::move(inputs), std::move(f), tolerance, 1, false};
}

std::vector<OpCase> elementwise_cases() {
  return {
      op("add", {{3, 5}, {3, 5}}, [](V v) { return v[0] + v[1]; }),
      op("add_broadcast_row", {{3, 5, 7}, {7}}, [](V v) { return v[0] + v[1]; }),
      op("add_broadcast_both", {{3, 1, 7}, {5, 1}}, [](V v) { return v[0] + v[1]; }),
      op("add_itself", {{4, 3}}, [](V v) { return v[0] + v[0]; }),
      op("subtract_broadcast", {{2, 3, 4}, {1, 3, 1}}, [](V v) { return v[0] - v[1]; }),
      op("multiply_broadcast", {{2, 3, 4}, {3, 1}}, [](V v) { return v[0] * v[1]; }),
      op("multiply_itself", {{17}}, [](V v) { return v[0] * v[0]; }),
      op("divide_broadcast", {{2, 3, 4}, {3, 4}}, [](V v) { return v[0] / (square(v[1]) + 1); }),
      op("affine", {{3, 5}}, [](V v) { return affine(v[0], -2.5, 0.5); }),
      op("gelu_erf", {{3, 67}}, [](V v) { return gelu_erf(v[0]); }),
      {"gelu_erf_wide", {{3, 67}}, [](V v) { return gelu_erf(v[0]); }, 1e-7, 4},
      op("gelu_tanh", {{3, 67}}, [](V v) { return gelu_tanh(v[0]); }),
      {"gelu_tanh_wide", {{3, 67}}, [](V v) { return gelu_tanh(v[0]); }, 1e-7, 4},
      op("silu", {{3, 67}}, [](V v) { return silu(v[0]); }),
      {"silu_wide", {{3, 67}}, [](V v) { return silu(v[0]); }, 1e-7, 4},
      op("relu", {{3, 67}}, [](V v) { return relu(v[0]); }),
      op("tanh", {{3, 67}}, [](V v) { return tanh(v[0]); }),
      op("exp", {{3, 67}}, [](V v) { return exp(v[0]); }),
      op("square", {{3, 67}}, [](V v) { return square(v[0]); }),
      op("cast_there_and_back", {{3, 5}},
         [](V v) { return cast(cast(v[0], DType::f64), v[0].dtype()); }),
      op("dropout_of_chosen_rows", {{3, 17}},
         [](V v) { return dropout(v[0], dropped.p, dropped.key, rows); }),
      op("dropout", {{3, 5, 13}}, [](V v) { return dropout(v[0], dropped.p, dropped.key, ids); }),
  };
}

std::vector<OpCase> product_cases() {
  return {
      op("linear", {{2, 3, 5}, {7, 5}, {7}}, [](V v) { return linear(v[0], v[1], v[2]); }),
      op("linear_without_bias", {{3, 5}, {1, 5}}, [](V v) { return linear(v[0], v[1]); }),
      op("linear_one_input", {{4, 1}, {3, 1}, {3}}, [](V v) { return linear(v[0], v[1], v[2]); }),
      op("linear_wide", {{9, 70}, {40, 70}, {40}}, [](V v) { return linear(v[0], v[1], v[2]); }),
      op("linear_unrounded", {{2, 3, 5}, {7, 5}, {7}},
         [](V v) { return linear_unrounded(v[0], v[1], v[2]); }),
      op("linear_unrounded_without_bias", {{3, 5}, {1, 5}},
         [](V v) { return linear_unrounded(v[0], v[1]); }),
      op("gated_linear", {{2, 3, 10}, {7, 5}, {7}},
         [](V v) { return gated_linear(Unary::gelu_erf, v[0], v[1], v[2]); }),
      op("gated_linear_strided_without_bias", {{16, 3, 2}, {4, 8}},
         [](V v) { return gated_linear(Unary::gelu_tanh, transpose(v[0], 0, 2), v[1]); }),
      op("linear_into_gelu", {{3, 11, 5}, {7, 5}, {7}},
         [](V v) { return gelu_tanh(linear(v[0], v[1], v[2])); }),
      op("linear_into_gelu_whole_packs", {{300, 5}, {16, 5}, {16}},
         [](V v) { return gelu_erf(linear(v[0], v[1], v[2])); }),
      op("linear_into_two_ops", {{3, 5}, {7, 5}, {7}},
         [](V v) {
           const Var y = linear(v[0], v[1], v[2]);
           return gelu_tanh(y) + relu(y);
         }),
      op("feed_forward", {{3, 11, 5}, {8, 5}, {8}, {4, 8}, {4}},
         [](V v) {
           return feed_forward(Unary::gelu_tanh, v[0], {v[1], v[2]}, {v[3], v[4]});
         }),
      op("feed_forward_without_biases", {{7, 5}, {6, 5}, {4, 6}},
         [](V v) {
           return feed_forward(Unary::relu, v[0], {v[1], {}}, {v[2], {}});
         }),
      op("linear_into_residual_layer_norm", {{3, 11, 5}, {7, 5}, {7}, {3, 11, 7}, {7}, {7}},
         [](V v) {
           return residual_layer_norm(linear(v[0], v[1], v[2]), v[3], dropped, v[4], v[5], 1e-5);
         }),
      op("linear_into_residual_layer_norm_whole_packs",
         {{130, 5}, {16, 5}, {16}, {130, 16}, {16}, {16}},
         [](V v) {
           return residual_layer_norm(linear(v[0], v[1], v[2]), v[3], {}, v[4], v[5], 1e-5);
         }),
      op("joint_linear", {{2, 3, 5}, {7, 5}, {3, 5}, {7}, {3}},
         [](V v) {
           return joint_linear(v[0], {v[1], v[2]}, {v[3], v[4]});
         }),
      op("linear_twice_same_weight", {{3, 4}, {4, 4}},
         [](V v) { return linear(linear(v[0], v[1]), v[1]); }),
      op("linear_strided_input", {{5, 3, 2}, {4, 5}},
         [](V v) { return linear(transpose(v[0], 0, 2), v[1]); }),
      op("matmul", {{5, 3}, {3, 7}}, [](V v) { return matmul(v[0], v[1]); }),
      op("matmul_batched", {{2, 3, 5, 4}, {2, 3, 4, 6}}, [](V v) { return matmul(v[0], v[1]); }),
      op("matmul_broadcast", {{2, 1, 5, 4}, {3, 4, 6}}, [](V v) { return matmul(v[0], v[1]); }),
      op("matmul_transposed", {{2, 5, 4}, {2, 6, 4}},
         [](V v) { return matmul(v[0], transpose(v[1], 1, 2)); }),
      op("matmul_transposed_left", {{2, 4, 5}, {2, 4, 6}},
         [](V v) { return matmul(transpose(v[0], 1, 2), v[1]); }),
      op("matmul_row_times_column", {{1, 9}, {9, 1}}, [](V v) { return matmul(v[0], v[1]); }),
      op("matmul_column_times_row", {{9, 1}, {1, 9}}, [](V v) { return matmul(v[0], v[1]); }),
  };
}

std::vector<OpCase> attention_op_cases() {
  return {
      op("softmax", {{3, 5, 17}}, [](V v) { return softmax(v[0]); }),
      op("softmax_of_one", {{3, 1}}, [](V v) { return softmax(v[0]); }),
      op("attention", {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}},
         [](V v) { return attend(v, 0.7); }),
      op("attention_holes", {{2, 2, 7, 5}, {2, 2, 9, 5}, {2, 2, 9, 4}},
         [](V v) { return attend(v, 0.7, holes); }),
      op("attention_empty_row", {{2, 2, 3, 5}, {2, 2, 9, 5}, {2, 2, 9, 4}},
         [](V v) { return attend(v, 0.7, one_empty); }),
      op("attention_many_blocks", {{2, 1, 70, 3}, {2, 1, 150, 3}, {2, 1, 150, 2}},
         [](V v) { return attend(v, 0.5, long_mask); }),
      op("attention_strided_heads", {{2, 7, 15}, {2, 9, 15}, {2, 9, 15}},
         [](V v) {
           const auto heads = [](const Var& x) {
             return transpose(reshape(x, {x.dim(0), x.dim(1), 3, 5}), 1, 2);
           };
           const Var out = attend({heads(v[0]), heads(v[1]), heads(v[2])}, 0.4);
           return reshape(transpose(out, 1, 2), {2, 7, 15});
         }),
      op("attention_ragged", {{14, 3, 5}, {14, 3, 5}, {14, 3, 4}},
         [](V v) { return attend_ragged(v, queries, keys); }),
      op("attention_ragged_to_landmarks", {{14, 2, 5}, {3, 2, 4, 5}, {3, 2, 4, 3}},
         [](V v) { return attend_ragged(v, queries, {}); }),
      op("attention_landmarks_to_ragged", {{3, 2, 4, 5}, {14, 2, 5}, {14, 2, 3}},
         [](V v) { return attend_ragged(v, {}, keys); }),
      op("attention_within_reach", {{1, 1, 70, 4}, {1, 1, 70, 4}, {1, 1, 70, 2}},
         [](V v) { return attend_ragged(v, {}, {}, 20); }),
      op("attention_ragged_within_reach", {{14, 3, 8}, {14, 3, 8}, {14, 3, 4}},
         [](V v) { return attend_ragged(v, queries, queries, 2); }),
      op("attention_ragged_beside_others", {{14, 3, 5}, {14, 3, 5}, {14, 3, 4}},
         [](V v) {
           const RowSpans few({{0, 2}, {9, 12}}, cpu_device), many({{3, 9}}, cpu_device);
           return attend_ragged(v, few, few, Scoring::all_keys, attend_ragged(v, many, many));
         }),
      op("rotate", {{2, 9, 18}},
         [](V v) { return rotate(split_heads(v[0], 3), {}, rotary_angles(v[0], 9, 6)); }),
      op("rotate_ragged", {{14, 3, 4}},
         [](V v) { return rotate(v[0], queries, rotary_angles(v[0], 7, 4)); }),
      op("rotate_the_first_heads", {{14, 3, 4}},
         [](V v) { return rotate(v[0], queries, rotary_angles(v[0], 7, 4), 2); }),
      op("attention_one_key", {{1, 1, 4, 3}, {1, 1, 1, 3}, {1, 1, 1, 3}},
         [](V v) { return attend(v, 1); }),
      op("segment_means", {{2, 9, 5}}, [](V v) { return segment_means(v[0], {}, 4); }),
      op("segment_means_ragged", {{14, 5}}, [](V v) { return segment_means(v[0], keys, 4); }),
      op("segment_means_more_segments_than_tokens", {{1, 3, 2}},
         [](V v) { return segment_means(v[0], {}, 5); }),
      op("nystrom_attention", {{2, 9, 5}, {2, 9, 36}, {12, 5}, {12, 5}, {12}, {12}, {3, 5}}, 1e-6,
         [](V v) {
           return nystrom_attention(
               NystromInputs::joint(v[0], v[1], 3, {{v[2], v[3]}, {v[4], v[5]}}, v[6]),
               {.heads = 3, .landmarks = 4, .scale = 0.5});
         }),
      op("nystrom_attention_ragged_shared_landmarks", {{14, 5}, {14, 24}, {8, 5}, {8}, {2, 3}},
         1e-6,
         [](V v) {
           return nystrom_attention(NystromInputs::joint(v[0], v[1], 2, {{v[2]}, {v[3]}}, v[4]),
                                    {.heads = 2,
                                     .landmarks = 3,
                                     .iterations = 2,
                                     .scale = 0.7,
                                     .queries = queries,
                                     .keys = queries});
         }),
      op("pinv_iterative_6", {{3, 8, 8}}, 1e-7,
         [](V v) { return pseudo_inverse_iterative(stochastic(v[0]), 6); }),
      op("pinv_iterative_0", {{3, 5, 5}}, 1e-7,
         [](V v) { return pseudo_inverse_iterative(stochastic(v[0]), 0); }),
      op("pinv_iterative_1_of_1x1", {{3, 1, 1}}, 1e-7,
         [](V v) { return pseudo_inverse_iterative(affine(square(v[0]), 1, 1), 1); }),
      op("pinv_iterative_whole_batch", {{2, 3, 7, 7}}, 1e-7,
         [](V v) { return pseudo_inverse_iterative(stochastic(v[0]), 3, PinvScale::whole_batch); }),
      op("pinv_exact", {{2, 6, 6}}, 1e-5, [](V v) { return pseudo_inverse_exact(v[0]); }),
      op("pinv_exact_of_rank_2", {{2, 6, 2}, {2, 2, 6}}, 1e-5,
         [](V v) { return pseudo_inverse_exact(matmul(v[0], v[1])); }),
      op("sequence_conv", {{2, 9, 3, 5}, {3, 5}}, [](V v) { return sequence_conv(v[0], v[1]); }),
      op("sequence_conv_ragged", {{14, 3, 5}, {3, 3}},
         [](V v) { return sequence_conv(v[0], v[1], queries); }),
      op("sequence_conv_longer_than_sequence", {{2, 4, 2, 3}, {2, 33}},
         [](V v) { return sequence_conv(v[0], v[1]); }),
      op("sequence_conv_long", {{1, 70, 2, 9}, {2, 65}},
         [](V v) { return sequence_conv(v[0], v[1]); }),
      op("sequence_conv_whole_vectors", {{1, 35, 1, 16}, {1, 33}},
         [](V v) { return sequence_conv(v[0], v[1]); }),
      op("sequence_conv_whole_vectors_ragged", {{14, 2, 16}, {2, 5}},
         [](V v) { return sequence_conv(v[0], v[1], queries); }),
      op("sequence_conv_one_tap", {{2, 4, 2, 3}, {2, 1}},
         [](V v) { return sequence_conv(v[0], v[1]); }),
      op("sequence_conv_strided", {{2, 2, 9, 3}, {2, 5}},
         [](V v) { return sequence_conv(transpose(v[0], 1, 2), v[1]); }),
  };
}

std::vector<OpCase> other_cases() {
  return {
      op("layer_norm", {{3, 5, 17}, {17}, {17}},
         [](V v) { return layer_norm(v[0], v[1], v[2], 1e-5); }),
      op("layer_norm_without_beta", {{3, 5, 17}, {17}},
         [](V v) { return layer_norm(v[0], v[1], {}, 1e-5); }),
      op("residual_dropout", {{3, 2, 5}, {3, 2, 5}},
         [](V v) { return residual_dropout(v[0], v[1], dropped); }),
      op("residual_dropout_without_dropout", {{2, 7}, {2, 7}},
         [](V v) { return residual_dropout(v[0], v[1], {}); }),
      op("linears_of_layer_norm", {{5, 6}, {6}, {6}, {4, 6}, {4}, {3, 6}, {3}},
         [](V v) {
           const Var x = layer_norm(v[0], v[1], v[2], 1e-5);
           return concat({linear(x, v[3], v[4]), linear(x, v[5], v[6])}, 1);
         }),
      op("residual_layer_norm", {{3, 5, 17}, {3, 5, 17}, {17}, {17}},
         [](V v) { return residual_layer_norm(v[0], v[1], dropped, v[2], v[3], 1e-5); }),
      op("residual_layer_norm_of_chosen_rows", {{3, 17}, {3, 17}, {17}, {17}},
         [](V v) {
           return residual_layer_norm(v[0], v[1], {0.3, {7, 3, 2}, rows}, v[2], v[3], 1e-5);
         }),
      op("residual_layer_norm_without_dropout", {{3, 5, 17}, {3, 5, 17}, {17}, {17}},
         [](V v) { return residual_layer_norm(v[0], v[1], {}, v[2], v[3], 1e-5); }),
      op("residual_layer_norm_wide", {{2, 9, 264}, {2, 9, 264}, {264}, {264}},
         [](V v) {
           return residual_layer_norm(v[0], v[1], {0.1, {7, 3, 2}, ints(4, 9)}, v[2], v[3], 1e-5);
         }),
      op("layer_norm_many_rows", {{600, 3}, {3}, {3}},
         [](V v) { return layer_norm(v[0], v[1], v[2], 1e-5); }),
      op("embedding", {{6, 4}},
         [](V v) {
           return embedding(v[0], int_tensor({5, 1, 1, 0, 3, 1}, {2, 3}), -1);
         }),
      op("gather_rows", {{6, 2, 3}}, [](V v) { return gather_rows(v[0], ints(5, 1, -1, 1)); }),
      op("reshape", {{3, 4, 5}},
         [](V v) {
           return reshape(v[0], {6, 10});
         }),
      op("transpose", {{3, 4, 5}}, [](V v) { return transpose(v[0], 0, 2); }),
      op("slice", {{3, 4, 5}}, [](V v) { return slice(v[0], 1, 1, 3); }),
      op("slice_twice", {{5}}, [](V v) { return slice(v[0], 0, 0, 3) + slice(v[0], 0, 2, 5); }),
      op("concat", {{3, 2}, {3, 5}},
         [](V v) {
           return concat({v[0], v[1], v[0]}, 1);
         }),
      op("sum", {{3, 4, 5}}, [](V v) { return sum(v[0]); }),
      op("sum_first_axis", {{300, 4}}, [](V v) { return sum(v[0], 0); }),
      op("sum_middle_axis", {{3, 4, 5}}, [](V v) { return sum(v[0], 1); }),
      op("sum_last_axis", {{3, 4, 5}}, [](V v) { return sum(v[0], -1); }),
      op("mean", {{3, 4, 5}}, [](V v) { return mean(v[0]); }),
      op("mean_axis", {{3, 4, 5}}, [](V v) { return mean(v[0], 1); }),
      op("cross_entropy", {{5, 7}},
         [](V v) { return cross_entropy(v[0], ints(0, 6, ignore_index, 3, 3)); }),
      op("cross_entropy_normaliser", {{3, 7}},
         [](V v) { return cross_entropy(v[0], ints(0, 6, 1), 11); }),
      op("cross_entropy_z_loss", {{4, 7}},
         [](V v) { return cross_entropy(v[0], ints(0, ignore_index, 6, 1), 5, {}, 0.1); }),
      op("cross_entropy_of_an_intermediate", {{3, 7}},
         [](V v) { return cross_entropy(tanh(v[0]), ints(0, 6, 1)); }),
      op("row_norms", {{3, 2, 5}}, [](V v) { return row_norms(v[0]); }),
      op("row_norms_one_column", {{4, 1}}, [](V v) { return row_norms(v[0]); }),
      op("distillation_loss", {{3, 7}},
         [](V v) {
           return distillation_loss(v[0], random_normal({3, 7}, 98).cast(v[0].dtype()), 2, 5);
         }),
      op("distillation_loss_of_an_intermediate", {{3, 7}},
         [](V v) {
           return distillation_loss(tanh(v[0]), random_normal({3, 7}, 98).cast(v[0].dtype()), 1, 3);
         }),
      op("mean_squared_error", {{3, 4}},
         [](V v) {
           return mean_squared_error(v[0], random_normal({3, 4}, 99).cast(v[0].dtype()));
         }),
      op("checkpoint", {{3, 5}, {4, 5}},
         [](V v) {
           return checkpoint([](const Vars& w) { return gelu_tanh(linear(w[0], w[1])); },
                             {v[0], v[1]});
         }),
  };
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    for (auto part : {elementwise_cases(), product_cases(), attention_op_cases(), other_cases()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return cases;
}

std::vector<Tensor> case_inputs(const OpCase& test) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.push_back(
        random_normal(test.inputs[i], 17 + i, test.input_scale).cast(DType::bf16).cast(DType::f64));
  }
  return inputs;
}

Evaluation evaluate(const OpCase& test, const std::vector<Tensor>& inputs, DType dtype,
                    Device device) {
  Tape tape;
  Vars leaves;
  for (const Tensor& input : inputs) leaves.push_back(Var::leaf(input.cast(dtype).to(device)));
  const Var y = test.f(leaves);
  Evaluation result{y.value(), {}};
  tape.backward(y, random_normal(y.shape(), 5).cast(y.dtype()).to(device));
  for (const Var& leaf : leaves) result.gradients.push_back(leaf.grad());
  return result;
}

void expect_close(const Evaluation& got, const Evaluation& expected, double tolerance) {
  EXPECT_LE(relative_difference(got.output, expected.output), tolerance) << "output";
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_LE(relative_difference(got.gradients[i], expected.gradients[i]), tolerance)
        << "gradient of input " << i;
}

}  // namespace nystrom::testing
