// The recorded attention statistics agree with the full matrices, and recording does not change
// results.
#include <gtest/gtest.h>

#include <numeric>

#include "nn/attention_diagnostics.h"
#include "nn/attention_watch.h"
#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

/// The longest sequence is the observed one. It has holes and is in the middle of the batch.
const Layout with_holes{{"11111111110000000000", "01111011110111111011", "11000000000000000000"}};
/// The same without holes, as rotary positions need it.
const Layout padded{{"11111111110000000000", "11111111111111111100", "11000000000000000000"}};

using Observer = std::function<void(const AttentionInputs&, Var&)>;

/// Returns the gradients of a loss multiplied by `factor`, while `observer` is active.
Tensor gradients(const Observer& observer, double factor = 1, bool checkpointing = false,
                 const ModelConfig& config = wider_config(), const Layout& layout = with_holes) {
  const auto model = make_model(config, DType::f64);
  RunContext run{true, checkpointing, 11, 5, int_tensor({0, 1, 2}, {3})};
  run.observe_attention = observer;
  Tape tape;
  const ModelOutput out = (*model)(input_of(config, layout), run);
  tape.backward(factor * weighted_sum(at_places(out.last_hidden_state, token_places(layout))));
  return model->parameters().gradients();
}

Observer of(AttentionWatch& watch) {
  return [&watch](const AttentionInputs& in, Var& output) { watch.observe(in, output); };
}

double norm(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}
double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// The figures of a watch are those of whole matrices.
void expect_figures_of_matrices(const ModelConfig& config, const Layout& layout) {
  AttentionWatch watch(config);
  std::vector<AttentionFigures> expected;
  gradients(
      [&](const AttentionInputs& in, Var& output) {
        watch.observe(in, output);
        const NoGrad constant;
        const RowRange rows = in.batch.tokens(1);
        const auto tokens = [&](const Var& x) {  // [1, l, …]
          const Tensor own = x.value().slice(0, rows.begin, rows.end).contiguous();
          return own.reshape(own.shape().with(0, 1));
        };
        const auto heads = [&](const Var& x) { return Var(tokens(x).transpose(1, 2)); };
        const Ragged alone(1, rows.size());
        const AttentionInputs one{tokens(in.hidden),
                                  heads(in.queries),
                                  heads(in.keys),
                                  heads(in.values),
                                  alone,
                                  in.query,
                                  in.key,
                                  {},
                                  in.rope_theta};
        const SoftmaxAttention exact(config);
        const std::vector<double> out = heads(output).value().contiguous().to_doubles(),
                                  out_exact = exact(one).value().contiguous().to_doubles();
        std::vector<double> difference;
        for (std::size_t i = 0; i < out.size(); ++i) difference.push_back(out[i] - out_exact[i]);
        AttentionFigures figures{
            .error = norm(difference) / norm(out_exact),
            .entropy = mean(attention_entropies(attention_matrix(exact, one)))};
        figures.residual =
            mean(inverse_residuals(NystromAttention(config).landmark_matrix(one), 6).back());
        expected.push_back(figures);
        EXPECT_LE(relative_difference(
                      matmul(attention_matrix(NystromAttention(config), one), one.values).value(),
                      heads(output).value().contiguous()),
                  1e-12);
      },
      1, false, config, layout);
  ASSERT_EQ(watch.layers().size(), expected.size());
  for (const auto& [layer, figures] : watch.layers()) {
    const AttentionFigures& whole = expected.at(static_cast<std::size_t>(layer));
    EXPECT_NEAR(figures.error, whole.error, 1e-12);
    EXPECT_NEAR(figures.entropy, whole.entropy, 1e-12);
    EXPECT_NEAR(figures.residual, whole.residual, 1e-12);
    EXPECT_GT(figures.error, 1e-3);
    EXPECT_GT(figures.residual, 0);
  }
}

TEST(AttentionWatch, SaysWhatTheWholeMatricesSay) {
  expect_figures_of_matrices(wider_config(), with_holes);
}

TEST(AttentionWatch, SaysWhatTheWholeMatricesSayOfRotatedHeads) {
  ModelConfig config = wider_config();
  config.positions = Positions::rope;
  config.hidden_size = 8;
  expect_figures_of_matrices(config, padded);
}

TEST(AttentionWatch, ChangesNoBit) {
  AttentionWatch watch(wider_config());
  EXPECT_EQ(gradients(of(watch)).to_doubles(), gradients({}).to_doubles());
}

TEST(AttentionWatch, SeesTheSameWithCheckpointing) {
  AttentionWatch watch(wider_config()), recomputed(wider_config());
  gradients(of(watch));
  gradients(of(recomputed), 1, true);
  ASSERT_EQ(recomputed.layers().size(), 2U);
  for (const auto& [layer, figures] : watch.layers()) {
    EXPECT_EQ(recomputed.layers().at(layer).error, figures.error);
    EXPECT_EQ(recomputed.layers().at(layer).inverse_gradient, figures.inverse_gradient);
  }
}

TEST(AttentionWatch, TheInversesGradientGrowsWithTheLoss) {
  AttentionWatch watch(wider_config()), louder(wider_config());
  gradients(of(watch));
  gradients(of(louder), 8);
  for (const auto& [layer, figures] : watch.layers()) {
    EXPECT_GT(figures.inverse_gradient, 0);
    EXPECT_NEAR(louder.layers().at(layer).inverse_gradient / figures.inverse_gradient, 8, 1e-9);
  }
}

TEST(AttentionWatch, ExactAttentionHasNoErrorAndNoInverse) {
  ModelConfig config = wider_config();
  config.attention.num_landmarks = 20;
  AttentionWatch watch(config);
  gradients(of(watch), 1, false, config);
  const AttentionFigures& figures = watch.layers().at(0);
  EXPECT_LE(figures.error, 1e-14);
  EXPECT_EQ(figures.residual, 0);
  EXPECT_EQ(figures.inverse_gradient, 0);
}

TEST(AttentionWatch, LooksAtNothingWithoutABackwardPass) {
  const ModelConfig config = wider_config();
  AttentionWatch watch(config);
  RunContext run{.observe_attention = of(watch)};
  (*make_model(config, DType::f64))(input_of(config, with_holes), run);
  EXPECT_TRUE(watch.layers().empty());
}

TEST(AttentionDiagnostics, AHeadOfZerosHasNoError) {
  const Tensor exact = Tensor::from(std::vector<double>{0, 0, 3, 4}, {1, 2, 1, 2}),
               close = Tensor::from(std::vector<double>{0, 0, 3, 9}, {1, 2, 1, 2});
  EXPECT_EQ(relative_errors(close, exact), (std::vector<double>{0, 1}));
}

/// ∂/∂A of F · Z(A) · (B V), computed from the matrices of the paper.
TEST(NystromAttention, GradientOfTheLandmarkMatrix) {
  const ModelConfig config = wider_config();
  const auto model = make_model(config, DType::f64);
  const Var dy = random_normal({3, 2, 20, 8}, 3);
  const double scale = 1 / std::sqrt(8.0);
  RunContext run;
  int seen = 0;
  run.observe_attention = [&](const AttentionInputs& in, const Var&) {
    if (seen++ > 0) return;
    const Tensor got = NystromAttention(config).landmark_matrix_gradient(in, dy.value());
    const Var means = segment_means(in.hidden, {}, 4);
    const auto project = [&](const Linear& by) {
      return split_heads(linear(means, by.weight(), by.bias()), 2);
    };
    const Var qs = project(in.query), ks = project(in.key);
    const auto read = [&](const Var& q, const Var& k) {
      return softmax(scale * matmul(q, transpose(k, -1, -2))).detach();
    };
    const Var a = Var::leaf(read(qs, ks).value());
    Tape tape;
    tape.backward(
        matmul(read(in.queries, ks), matmul(pseudo_inverse_iterative(a, 6, PinvScale::per_matrix),
                                            matmul(read(qs, in.keys), in.values.detach()))),
        dy.value());
    EXPECT_LE(relative_difference(got, a.grad()), 1e-12);
  };
  ModelInput input = input_of(config, with_holes);
  input.attention_mask = {};
  (*model)(input, run);
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace nystrom::testing
