// Attention within reach equals exact attention whose other scores are left out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "autograd/ops.h"
#include "tests/support/random.h"

namespace nystrom::testing {
namespace {

/// softmax over the keys at most `reach` places away, from the whole matrix of scores.
Var dense_local(const Var& q, const Var& k, const Var& v, double scale, std::int64_t reach) {
  const std::int64_t n = q.dim(2);
  std::vector<double> bias;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) bias.push_back(std::abs(i - j) <= reach ? 0 : -1e30);
  const Var scores = scale * matmul(q, transpose(k, 2, 3)) + Var(Tensor::from(bias, {n, n}));
  return matmul(softmax(scores), v);
}

/// The output and the gradients of the inputs.
template <class F>
std::vector<Tensor> results_of(const std::vector<Tensor>& inputs, const F& f) {
  std::vector<Var> vars;
  for (const Tensor& input : inputs) vars.push_back(Var::leaf(input));
  Tape tape;
  const Var y = f(vars);
  std::vector<Tensor> results{y.value()};
  tape.backward(sum(y * Var(random_normal(y.shape(), 9))));
  for (const Var& var : vars) results.push_back(var.grad());
  return results;
}

TEST(LocalAttention, EqualsExactAttentionWithoutTheOtherKeys) {
  for (const std::int64_t n : {1, 5, 64, 130, 700}) {
    for (const std::int64_t reach : {0, 1, 63, 64, 129, 1000}) {
      SCOPED_TRACE(fmt::format("{} rows, reach {}", n, reach));
      const std::vector<Tensor> inputs{random_normal({1, 2, n, 4}, 1),
                                       random_normal({1, 2, n, 4}, 2),
                                       random_normal({1, 2, n, 3}, 3)};
      const auto expected = results_of(inputs, [&](const std::vector<Var>& v) {
        return dense_local(v[0], v[1], v[2], 0.7, reach);
      });
      const auto found = results_of(inputs, [&](const std::vector<Var>& v) {
        return attention(v[0], v[1], v[2], {.scale = 0.7, .out = DType::f64, .reach = reach});
      });
      ASSERT_EQ(found.size(), 4U);
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_LE(max_difference(found[i], expected[i]), 1e-12) << i;
    }
  }
}

TEST(LocalAttention, AReachBeyondAllKeysIsExactAttention) {
  const Var q = random_normal({1, 2, 5, 4}, 1);
  const auto of = [&](std::int64_t reach) {
    return attention(q, q, q, {.out = DType::f64, .reach = reach}).value().to_doubles();
  };
  EXPECT_EQ(of(std::numeric_limits<std::int64_t>::max()), of(Scoring::all_keys));
}

TEST(LocalAttention, RefusesQueriesAndKeysOfOtherRows) {
  const Var q = random_normal({1, 2, 3, 4}, 1), k = random_normal({1, 2, 5, 4}, 2);
  EXPECT_THROW(attention(q, k, k, {.out = DType::f64, .reach = 2}), Error);
}

TEST(Rotate, KeepsScoresOfEqualDistances) {
  // The score of two rotated rows depends on their distance alone.
  const Tensor table = rotary_table(50, 8, 10000);
  const Tensor q = random_normal({1, 1, 1, 8}, 1), k = random_normal({1, 1, 1, 8}, 2);
  const auto at = [&](const Tensor& x, std::int64_t place) {
    return rotate(Var(x), {}, table.slice(0, place, place + 1));
  };
  const auto score = [&](std::int64_t i, std::int64_t j) {
    return matmul(at(q, i), transpose(at(k, j), 2, 3)).value().item();
  };
  EXPECT_NEAR(score(3, 10), score(40, 47), 1e-6);
  EXPECT_GT(std::abs(score(3, 10) - score(3, 11)), 1e-3);
}

}  // namespace
}  // namespace nystrom::testing
