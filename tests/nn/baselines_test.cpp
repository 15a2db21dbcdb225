// Definitions of the other attention kinds, and guarantees of their approximations. golden_test
// compares their values with independent references.
#include <gtest/gtest.h>

#include "nn/attention_diagnostics.h"
#include "nn/baselines.h"
#include "tests/support/errors.h"
#include "tests/support/gradcheck.h"
#include "tests/support/models.h"
#include "tests/support/says.h"

namespace nystrom::testing {
namespace {

/// Random inputs for the attention of one layer: one sequence and two heads of width eight.
struct Block {
  ModelConfig config = tiny_config();
  ParameterStore store;
  std::optional<Linear> query, key;
  Ragged batch;
  Var hidden;

  explicit Block(std::int64_t length, double sharpness = 2) : batch(1, length) {
    config.hidden_size = 16;
    config.max_position_embeddings = length;
    query.emplace(Scope(store) / "self" / "query", 16, 16);
    key.emplace(Scope(store) / "self" / "key", 16, 16);
    store.allocate(DType::f64, StoreMode::inference);
    for (const Parameter& parameter : store.parameters())
      store.set(parameter.name(), weights_of(parameter, sharpness));
    hidden = random_normal({1, length, 16}, 1);
  }

  AttentionInputs inputs() const {
    const auto heads = [](const Var& x) { return split_heads(x, 2); };
    return {hidden,
            heads((*query)(hidden)),
            heads((*key)(hidden)),
            heads(random_normal(hidden.shape(), 2)),
            batch,
            *query,
            *key};
  }
  std::unique_ptr<AttentionMethod> method(AttentionKind kind) {
    config.attention.kind = kind;
    ParameterStore none;
    return make_attention(Scope(none) / "baseline", config);
  }
};

void expect_stochastic(const Tensor& matrix) {
  const std::vector<double> values = matrix.contiguous().to_doubles();
  const auto n = static_cast<std::size_t>(matrix.dim(3));
  for (std::size_t row = 0; row < values.size(); row += n) {
    double sum = 0;
    for (std::size_t i = row; i < row + n; ++i) {
      EXPECT_GE(values[i], 0);
      sum += values[i];
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Baselines, GiveMeansOfValues) {
  Block block(17);
  for (const AttentionKind kind :
       {AttentionKind::softmax, AttentionKind::double_softmax, AttentionKind::linear,
        AttentionKind::performer, AttentionKind::reformer}) {
    SCOPED_TRACE(enum_name(kind));
    block.config.attention.bucket_size = 4;
    AttentionInputs in = block.inputs();
    if (kind == AttentionKind::reformer) in.keys = in.queries;
    expect_stochastic(attention_matrix(*block.method(kind), in));
  }
}

TEST(Baselines, NystromWithIdentityInverseGivesMeansOfValues) {
  Block block(17);
  block.config.attention.inverse = Inverse::identity;
  expect_stochastic(attention_matrix(*block.method(AttentionKind::nystrom), block.inputs()));
}

TEST(Performer, FeaturesOfABlockAreOrthogonalAndTheirLengthsAreNot) {
  const Tensor w = orthogonal_features(3, "a.features", 20, 8);
  const std::vector<double> gram = matmul(w, transpose(Var(w), 0, 1)).value().to_doubles();
  double squares = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = i / 8 * 8; j < i; ++j)
      EXPECT_NEAR(gram[i * 20 + j], 0, 1e-12) << i << " " << j;
    squares += gram[i * 21];
  }
  EXPECT_NEAR(squares / 20, 8, 2.5)
      << "the mean squared length of standard normal vectors in 8 dimensions";
  EXPECT_GT(std::abs(gram[0] - gram[21]), 0.1);
}

/// The mean over many draws is within four standard errors of exp(x·y).
TEST(Performer, EstimatesTheSoftmaxKernelWithoutBias) {
  constexpr std::int64_t width = 8, count = 16;
  constexpr int draws = 4000;
  const std::vector<double> x = random_normal({width}, 1, 0.5).to_doubles(),
                            y = random_normal({width}, 2, 0.5).to_doubles();
  double inner = 0, half_squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    inner += x[i] * y[i], half_squares += (x[i] * x[i] + y[i] * y[i]) / 2;
  double sum = 0, squares = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<double> w =
        orthogonal_features(static_cast<std::uint64_t>(draw), "features", count, width)
            .to_doubles();
    double estimate = 0;
    for (std::size_t f = 0; f < static_cast<std::size_t>(count); ++f) {
      double projected = 0;
      for (std::size_t i = 0; i < x.size(); ++i) projected += w[f * x.size() + i] * (x[i] + y[i]);
      estimate += std::exp(projected - half_squares) / count;
    }
    sum += estimate;
    squares += estimate * estimate;
  }
  const double mean = sum / draws, deviation = std::sqrt((squares / draws - mean * mean) / draws);
  EXPECT_LE(std::abs(mean - std::exp(inner)), 4 * deviation);
  EXPECT_LE(deviation, 0.02 * mean) << "or the test proves little";
}

TEST(Performer, ComesNearerToSoftmaxWithMoreFeatures) {
  Block block(24, 0.3);
  const Tensor exact = (*block.method(AttentionKind::softmax))(block.inputs()).value();
  const auto error = [&](std::int64_t features) {
    double sum = 0;
    for (std::int64_t seed = 0; seed < 8; ++seed) {
      block.config.attention.num_features = features;
      block.config.attention.random_seed = seed;
      sum += relative_errors((*block.method(AttentionKind::performer))(block.inputs()).value(),
                             exact)[0] /
             8;
    }
    return sum;
  };
  const double few = error(8), more = error(64), many = error(1024);
  EXPECT_LT(more, 0.7 * few);
  EXPECT_LT(many, 0.5 * more);
  EXPECT_LT(many, 0.1);
}

TEST(Performer, FollowsFromItsSeedAlone) {
  Block block(9);
  const auto values = [&](std::int64_t seed) {
    block.config.attention.random_seed = seed;
    return (*block.method(AttentionKind::performer))(block.inputs())
        .value()
        .contiguous()
        .to_doubles();
  };
  EXPECT_EQ(values(5), values(5));
  EXPECT_NE(values(5), values(6));
}

/// With scores of several hundred no feature is large for all keys. The subtracted value must
/// keep every sum above 0, in f32 too.
TEST(Performer, StaysFiniteForLargeScores) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Var q = random_normal({1, 2, 12, 8}, 1, 40).cast(dtype),
              k = random_normal({1, 2, 12, 8}, 2, 40).cast(dtype);
    Block block(12);
    const AttentionInputs in{block.hidden, q, k, q, block.batch, *block.query, *block.key};
    for (const double value :
         (*block.method(AttentionKind::performer))(in).value().contiguous().to_doubles())
      ASSERT_TRUE(std::isfinite(value));
  }
}

/// Tokens that fit into one chunk attend to all others, whatever their hashes: softmax(Q Q'ᵀ / √d)
/// without the diagonal.
TEST(Reformer, OfOneChunkIsExactAttentionToOthers) {
  Block block(6);
  block.config.attention.bucket_size = 6;
  for (const std::int64_t rounds : {1, 2, 3}) {
    block.config.attention.num_hashes = rounds;
    AttentionInputs in = block.inputs();
    in.keys = in.queries;
    const Tensor matrix = attention_matrix(*block.method(AttentionKind::reformer), in);
    const std::vector<double> q = in.queries.value().contiguous().to_doubles(),
                              got = matrix.contiguous().to_doubles();
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 6; ++i) {
        std::vector<double> row(6, 0.0);
        double total = 0;
        for (std::size_t j = 0; j < 6; ++j) {
          double inner = 0, squares = 0;
          for (std::size_t c = 0; c < 8; ++c) {
            inner += q[(h * 6 + i) * 8 + c] * q[(h * 6 + j) * 8 + c];
            squares += q[(h * 6 + j) * 8 + c] * q[(h * 6 + j) * 8 + c];
          }
          total += row[j] = i == j ? 0 : std::exp(inner / std::sqrt(squares + 8e-6));
        }
        for (std::size_t j = 0; j < 6; ++j)
          EXPECT_NEAR(got[(h * 6 + i) * 6 + j], row[j] / total, 1e-12);
      }
    }
  }
}

/// The memory of scores is that of the sequence where it is shorter than a chunk.
TEST(Reformer, MakesNoChunkLongerThanTheSequence) {
  Block block(6);
  AttentionInputs in = block.inputs();
  in.keys = in.queries;
  const auto with_chunks_of = [&](std::int64_t size) {
    block.config.attention.bucket_size = size;
    return (*block.method(AttentionKind::reformer))(in).value().contiguous().to_doubles();
  };
  EXPECT_EQ(with_chunks_of(65536), with_chunks_of(6));
}

TEST(Reformer, LeavesATokenAloneWithItself) {
  Block block(1);
  AttentionInputs in = block.inputs();
  in.keys = in.queries;
  EXPECT_LE(relative_difference((*block.method(AttentionKind::reformer))(in).value().contiguous(),
                                in.values.value().contiguous()),
            1e-12);
}

TEST(Reformer, ModelHasNoKeyProjection) {
  ModelConfig config = tiny_config();
  config.attention.kind = AttentionKind::reformer;
  const Model model(config);
  for (const Parameter& parameter : model.parameters().parameters())
    expect_hides(parameter.name(), "self.key");
}

TEST(Linformer, RefusesLongerSequencesThanItsProjections) {
  ModelConfig config = tiny_config();
  config.attention.kind = AttentionKind::linformer;
  config.attention.projected_length = 4;
  config.positions = Positions::none;
  EXPECT_EQ(config.longest_sequence(), 9);
  const auto model = make_model(config, DType::f64);
  EXPECT_EQ(message_of([&] { (*model)(input_of(config, {{"1111111111"}})); }),
            "the sequence has 10 positions, but linformer's projections were made for "
            "max_position_embeddings 9; shorten it");
}

// ---- Diagnostics --------------------------------------------------------------------------------

TEST(Diagnostics, ObserverSeesEveryLayerInOrder) {
  const ModelConfig config = tiny_config();
  const auto model = make_model(config, DType::f64);
  std::vector<std::vector<double>> seen;
  RunContext run;
  run.observe_attention = [&](const AttentionInputs& in, const Var&) {
    seen.push_back(in.hidden.value().to_doubles());
  };
  (*model)(input_of(config, {{"11111"}}), run);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_NE(seen[0], seen[1]);
}

TEST(Diagnostics, MatrixTimesValuesIsTheOutput) {
  Block block(13);
  for (const AttentionKind kind :
       {AttentionKind::nystrom, AttentionKind::softmax, AttentionKind::performer}) {
    const auto method = block.method(kind);
    const AttentionInputs in = block.inputs();
    const Tensor product = matmul(attention_matrix(*method, in), in.values).value();
    EXPECT_LE(relative_difference(product, (*method)(in).value().contiguous()), 1e-10)
        << enum_name(kind);
  }
}

TEST(Diagnostics, ResidualFallsWithEachStep) {
  const Tensor a = softmax(3 * Var(random_normal({1, 4, 12, 12}, 3))).value();
  const auto residuals = inverse_residuals(a, 20);
  ASSERT_EQ(residuals.size(), 21U);
  for (std::size_t head = 0; head < 4; ++head) {
    for (std::size_t step = 1; step < residuals.size(); ++step) {
      if (residuals[step - 1][head] < 1e-10) continue;  // below the rounding error
      EXPECT_LT(residuals[step][head], residuals[step - 1][head]) << head << " " << step;
    }
    EXPECT_LE(residuals.back()[head], 1e-10);
  }
}

TEST(Diagnostics, EntropyIsBetweenOneKeyAndAll) {
  Block block(16, 0);  // scores are products of biases: almost uniform
  const auto exact = block.method(AttentionKind::softmax);
  Var zero = Tensor::zeros({1, 2, 16, 8}, DType::f64);
  const AttentionInputs in{block.hidden, zero, zero, zero, block.batch, *block.query, *block.key};
  EXPECT_NEAR(attention_entropies(attention_matrix(*exact, in))[1], std::log(16), 1e-12);
  std::vector<double> identity(2 * 16 * 16, 0.0);
  for (std::size_t i = 0; i < 32; ++i) identity[i * 16 + i % 16] = 1;
  EXPECT_EQ(attention_entropies(Tensor::from(identity, {1, 2, 16, 16}))[0], 0);
}

TEST(LinearAttention, HasASlopeWhereAQueryOrAKeyIsZero) {
  const Shape shape{1, 2, 3, 4};
  const Tensor others = random_normal(shape, 1), values = random_normal(shape, 2),
               weights = random_normal(shape, 3);
  for (const bool of_query : {true, false}) {
    const Tensor x = Tensor::zeros(shape, DType::f64);
    const auto attend = [&](const Var& zero) {
      return of_query ? linear_attention(zero, others, values, {})
                      : linear_attention(others, zero, values, {});
    };
    const Var leaf = Var::leaf(x);
    Tape().backward(attend(leaf), weights);
    const Tensor expected = numerical_gradient(
        [&] {
          const NoGrad constant;
          return inner_product(attend(x).value(), weights);
        },
        x);
    EXPECT_LT(relative_difference(leaf.grad(), expected), 1e-4);  // f'' jumps there
  }
}

TEST(LinearAttention, KeepsItsDigitsWhereTheProductsOfFeaturesUnderflow) {
  const Shape shape{1, 2, 3, 4};
  const auto far_below_zero = [&](std::uint64_t seed) {
    return affine(random_normal(shape, seed), 1, -60).value();
  };
  const Tensor q = far_below_zero(1), k = far_below_zero(2), v = random_normal(shape, 3);
  const auto output_and_gradient = [&](DType dtype) {
    Tape tape;
    const Var queries = Var::leaf(q.cast(DType::f32).cast(dtype));
    const Var out = linear_attention(queries, k.cast(DType::f32).cast(dtype), v.cast(dtype), {});
    tape.backward(out, v.cast(dtype));
    return std::pair(out.value(), queries.grad());
  };
  const auto wide = output_and_gradient(DType::f64), narrow = output_and_gradient(DType::f32);
  EXPECT_LT(relative_difference(narrow.first, wide.first), 1e-4);
  EXPECT_LT(relative_difference(narrow.second, wide.second), 1e-4);
}

}  // namespace
}  // namespace nystrom::testing
