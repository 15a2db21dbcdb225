// The two forms of the op nystrom_attention compared, and layers of adjacent weights compared with
// separate ones. nn/nystrom_test compares the composed form with explicit matrices.
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "tests/support/named.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

struct Sizes {
  std::int64_t samples, length, channels, heads, width, taps;
};

struct Case : Named, Sizes {
  NystromOptions options;
  DType dtype = DType::f64;
  double tolerance = 1e-11;
  std::size_t projections = 2;
};

Tensor mask_of(std::int64_t samples, std::int64_t length) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < samples * length; ++i)
    values.push_back(i % length < 7 || i % 3 == 0);
  return mask_tensor(values, {samples, length});
}

const Case cases[] = {
    {"small", {2, 9, 5, 3, 4, 5}, {.heads = 3, .landmarks = 4, .scale = 0.5}},
    {"without_taps", {2, 9, 5, 3, 4, 0}, {.heads = 3, .landmarks = 4, .scale = 0.5}},
    {"one_of_everything", {1, 3, 1, 1, 1, 1}, {.landmarks = 1, .iterations = 1}},
    {"ragged",
     {0, 30, 6, 2, 8, 3},
     {.heads = 2,
      .landmarks = 5,
      .iterations = 3,
      .scale = 0.4,
      .queries = RowSpans({{0, 9}, {9, 15}, {16, 28}}, cpu_device),
      .keys = RowSpans({{0, 9}, {9, 15}, {16, 28}}, cpu_device)}},
    {"ragged_queries_beside_the_keys",
     {0, 30, 6, 2, 8, 0},
     {.heads = 2,
      .landmarks = 5,
      .scale = 0.4,
      .queries = RowSpans({{0, 9}, {9, 20}}, cpu_device),
      .keys = RowSpans({{1, 9}, {9, 20}}, cpu_device)}},
    {"as_transformers",
     {2, 12, 6, 2, 8, 3},
     {.heads = 2,
      .landmarks = 4,
      .pinv_scale = PinvScale::whole_batch,
      .scale = 0.4,
      .key_mask = mask_of(2, 12),
      .empty_rows = EmptyRows::uniform}},
    {"rotated",
     {2, 9, 5, 3, 4, 5},
     {.heads = 3,
      .landmarks = 4,
      .scale = 0.5,
      .landmark_angles = rotary_table({1, 3.5, 6, 8, 1.5, 3, 5, 7}, 4, 100)}},
    {"rotated_shared_landmarks_of_ragged_rows",
     {0, 30, 6, 2, 8, 3},
     {.heads = 2,
      .landmarks = 5,
      .scale = 0.4,
      .queries = RowSpans({{0, 9}, {16, 28}}, cpu_device),
      .keys = RowSpans({{0, 9}, {16, 28}}, cpu_device),
      .landmark_angles = rotary_table(10, 8, 20)},
     DType::f64,
     1e-11,
     1},
    {"shared_landmarks",
     {2, 70, 6, 2, 16, 33},
     {.heads = 2, .landmarks = 16, .scale = 0.25},
     DType::f64,
     1e-11,
     1},
    {"many_landmarks",
     {1, 90, 5, 2, 4, 3},
     {.heads = 2, .landmarks = few_keys + 6, .iterations = 2, .scale = 0.5}},
    {"f32", {2, 70, 6, 2, 16, 33}, {.heads = 2, .landmarks = 8, .scale = 0.25}, DType::f32, 1e-4},
    {"bf16", {2, 70, 6, 2, 16, 33}, {.heads = 2, .landmarks = 8, .scale = 0.25}, DType::bf16, 4e-2},
};

/// The rows of a case: ragged ones if there are no samples.
Shape rows_of(const Case& c, std::int64_t width) {
  return c.samples == 0 ? Shape{c.length, width} : Shape{c.samples, c.length, width};
}

std::vector<Var> inputs_of(const Case& c) {
  const std::int64_t out = c.heads * c.width;
  std::vector<Shape> shapes{rows_of(c, c.channels), rows_of(c, 3 * out)};
  shapes.insert(shapes.end(), c.projections, {out, c.channels});
  shapes.insert(shapes.end(), c.projections, {out});
  if (c.taps > 0) shapes.push_back({c.heads, 1, c.taps, 1});
  std::vector<Var> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(
        Var::leaf(random_normal(shape, inputs.size() + 1).cast(DType::bf16).cast(c.dtype)));
  return inputs;
}

NystromInputs joint(const Case& c, const std::vector<Var>& v) {
  const auto weights = v.begin() + 2, biases = weights + static_cast<std::ptrdiff_t>(c.projections),
             end = biases + static_cast<std::ptrdiff_t>(c.projections);
  return NystromInputs::joint(v[0], v[1], c.heads, {{weights, biases}, {biases, end}},
                              c.taps > 0 ? v.back() : Var());
}

Var fused(const Case& c, const std::vector<Var>& v) {
  return nystrom_attention(joint(c, v), c.options);
}

Var composed(const Case& c, const std::vector<Var>& v) {
  NystromInputs inputs = joint(c, v);
  inputs.qkv = {};
  return nystrom_attention(inputs, c.options);
}

std::vector<Tensor> results(const Case& c, Var (*f)(const Case&, const std::vector<Var>&)) {
  const std::vector<Var> inputs = inputs_of(c);
  Tape tape;
  const Var y = f(c, inputs);
  tape.backward(y, random_normal(y.shape(), 99).cast(DType::bf16).cast(c.dtype));
  std::vector<Tensor> all{y.value()};
  for (const Var& input : inputs) all.push_back(input.grad());
  return all;
}

class NystromAttentionTest : public ::testing::TestWithParam<Case> {};

TEST_P(NystromAttentionTest, EqualsItsComposition) {
  const auto got = results(GetParam(), &fused), expected = results(GetParam(), &composed);
  // The gradient of the keys' bias cancels, because a shift of all keys changes no softmax over
  // them. It is compared on the scale of the other bias.
  const auto biases = got.size() - 1 - (GetParam().taps > 0 ? 1 : 0);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max(largest(expected[i]), i == biases ? largest(expected[i - 1]) : 0);
    EXPECT_LE(max_difference(got[i], expected[i]), GetParam().tolerance * scale) << "result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, NystromAttentionTest, ::testing::ValuesIn(cases), case_name);

/// Leaves whose values are parts of one slab, and so are their gradients.
std::vector<Var> adjacent_leaves(const std::vector<Shape>& shapes) {
  std::int64_t count = 0, first = 0;
  for (const Shape& shape : shapes) count += shape.numel();
  const Tensor values = random_normal({count}, 5), grads = Tensor::zeros({count}, DType::f64);
  std::vector<Var> leaves;
  for (const Shape& shape : shapes) {
    const auto part = [&](const Tensor& slab) {
      return slab.slice(0, first, first + shape.numel()).reshape(shape);
    };
    leaves.push_back(Var::leaf(part(values), part(grads)));
    first += shape.numel();
  }
  return leaves;
}

TEST(JointLinear, AdjacentParametersGiveWhatSeparateOnesGive) {
  const std::vector<Var> p = adjacent_leaves({{4, 6}, {8, 6}, {4}, {8}});
  const Tensor seed = random_normal({3, 12}, 6);
  const Var x = Var::leaf(random_normal({3, 6}, 7)), other = Var::leaf(x.value());
  Tape tape;
  const Var y = joint_linear(x, {p[0], p[1]}, {p[2], p[3]});
  tape.backward(y, seed);
  std::vector<Var> separate;
  for (const Var& leaf : p) separate.push_back(Var::leaf(leaf.value().clone()));
  Tape second;
  const Var expected =
      concat({linear(other, separate[0], separate[2]), linear(other, separate[1], separate[3])}, 1);
  second.backward(expected, seed);
  EXPECT_LE(relative_difference(y.value(), expected.value()), 1e-14);
  EXPECT_LE(relative_difference(x.grad(), other.grad()), 1e-14);
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_LE(relative_difference(p[i].grad(), separate[i].grad()), 1e-14) << i;
}

TEST(JointLinear, OneProductServesAdjacentParameters) {
  static int products;
  products = 0;
  const std::vector<Var> p = adjacent_leaves({{4, 6}, {8, 6}, {4}, {8}});
  const KernelObserver before = detail::kernel_observer;
  set_kernel_observer([](const KernelCall& call, bool begin) {
    products += begin && std::string_view(call.name) == "matmul";
  });
  Tape tape;
  const Var y = joint_linear(Var::leaf(random_normal({3, 6}, 7)), {p[0], p[1]}, {p[2], p[3]});
  tape.backward(y, random_normal({3, 12}, 6));
  set_kernel_observer(before);
  EXPECT_EQ(products, 3);
}

}  // namespace
}  // namespace nystrom::testing
