// Nyström attention compared with its parts and with the attention that it approximates.
#include "nn/nystrom.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"
#include "tests/support/named.h"
#include "tests/support/oracle.h"

namespace nystrom::testing {
namespace {

/// One attention method with its own projections and random hidden states.
struct Block {
  ModelConfig config = tiny_config();
  ParameterStore store;
  std::optional<Linear> query, key;
  std::optional<Ragged> batch;
  Var hidden, values;

  Block(
      const std::vector<std::string>& rows, DType dtype,
      void (*change)(ModelConfig&) = [](ModelConfig&) {}) {
    config.hidden_size = 12;
    config.num_attention_heads = 3;
    config.attention.num_landmarks = 4;
    change(config);
    query.emplace(Scope(store) / "self" / "query", config.hidden_size, config.hidden_size);
    key.emplace(Scope(store) / "self" / "key", config.hidden_size, config.hidden_size);
    store.allocate(dtype, StoreMode::inference);
    for (const Parameter& parameter : store.parameters())
      store.set(parameter.name(), weights_of(parameter, 2));
    const Layout layout{rows};
    batch.emplace(mask_of(layout));
    const Shape shape{layout.batch(), layout.length(), config.hidden_size};
    hidden = random_normal(shape, 1).cast(dtype);
    values = random_normal(shape, 2).cast(dtype);
  }

  Var heads(const Var& x) const { return split_heads(x, config.num_attention_heads); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(config.head_dim())); }
  Var attend(AttentionKind kind) const {
    ModelConfig chosen = config;
    chosen.attention.kind = kind;
    const auto rows = [&](const Var& x) { return batch->rows_of(x); };
    const AttentionInputs inputs{rows(hidden),
                                 heads(rows((*query)(hidden))),
                                 heads(rows((*key)(hidden))),
                                 heads(rows(values)),
                                 *batch,
                                 *query,
                                 *key};
    ParameterStore no_more;
    const Var out = (*make_attention(Scope(no_more), chosen))(inputs);
    return heads(batch->in_places(merge_heads(out)));
  }
};

/// Turns x [b, h, n, d] into rows of width h·d at the tokens of `rows`.
Tensor tokens_of(const Var& x, const std::vector<std::string>& rows) {
  const Var merged = reshape(transpose(x, 1, 2), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
  return at_places(merged, token_places({rows})).value();
}

const std::vector<std::string> long_rows = {"1111101111011", "1111111111111", "1010101010100"};

/// The definition with explicit score matrices. Landmarks are means of queries and keys.
Var unfused_nystrom(const Block& block) {
  const AttentionConfig& attention = block.config.attention;
  const Var q = (*block.query)(block.hidden), k = (*block.key)(block.hidden);
  const auto landmarks = [&](const Var& x) {
    const Ragged& batch = *block.batch;
    return block.heads(segment_means(batch.rows_of(x), batch.all().keys, attention.num_landmarks));
  };
  const Var key_landmarks = landmarks(k);
  const bool keys_alone = attention.landmark_source == LandmarkSource::keys;
  const Var query_landmarks = keys_alone ? key_landmarks : landmarks(q);
  const DType dtype = q.dtype();
  const auto score = [&](const Var& a, const Var& b) {
    return block.scale() * matmul(a, transpose(b, -1, -2));
  };
  const Var a = softmax(score(query_landmarks, key_landmarks));
  Var y =
      unfused_attention(query_landmarks, block.heads(k), block.heads(block.values),
                        {.scale = block.scale(), .out = dtype, .key_mask = mask_of({long_rows})});
  if (attention.inverse == Inverse::iterative)
    y = matmul(pseudo_inverse_iterative(a, attention.inverse_iterations), y);
  if (attention.inverse == Inverse::exact) y = matmul(pseudo_inverse_exact(a), y);
  return matmul(softmax(score(block.heads(q), key_landmarks)), y);
}

struct OracleCase : Named {
  void (*change)(ModelConfig&);
};

const OracleCase oracle_cases[] = {
    {"iterative", [](ModelConfig&) {}},
    {"no_iterations", [](ModelConfig& c) { c.attention.inverse_iterations = 0; }},
    {"exact", [](ModelConfig& c) { c.attention.inverse = Inverse::exact; }},
    {"identity", [](ModelConfig& c) { c.attention.inverse = Inverse::identity; }},
    {"keys", [](ModelConfig& c) { c.attention.landmark_source = LandmarkSource::keys; }},
    {"one_landmark", [](ModelConfig& c) { c.attention.num_landmarks = 1; }},
};

class NystromOracle : public ::testing::TestWithParam<OracleCase> {};

TEST_P(NystromOracle, EqualsDefinitionWithMeansOfQueriesAndKeys) {
  const Block block(long_rows, DType::f64, GetParam().change);
  const Tensor expected = tokens_of(unfused_nystrom(block), long_rows);
  EXPECT_LE(
      relative_difference(tokens_of(block.attend(AttentionKind::nystrom), long_rows), expected),
      1e-10);
}

INSTANTIATE_TEST_SUITE_P(Options, NystromOracle, ::testing::ValuesIn(oracle_cases), case_name);

TEST(Nystrom, IsNotSoftmaxAttentionBeyondItsLandmarks) {
  const Block block(long_rows, DType::f64);
  EXPECT_GT(relative_difference(block.attend(AttentionKind::nystrom).value().contiguous(),
                                block.attend(AttentionKind::softmax).value().contiguous()),
            1e-2);
}

TEST(Nystrom, UpToAsManyTokensAsLandmarksEqualsSoftmaxAttention) {
  const std::vector<std::string> rows = {"1111000000000", "0000100010000", "1000000000000",
                                         "1111111111111"};  // the last row is long
  const std::vector<std::string> short_rows = {rows[0], rows[1], rows[2], "0000000000000"};
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::f64, 1e-10), std::pair(DType::f32, 1e-5)}) {
    SCOPED_TRACE(name_of(dtype));
    const Block block(rows, dtype);
    const Tensor expected = tokens_of(block.attend(AttentionKind::softmax), short_rows);
    EXPECT_LE(
        relative_difference(tokens_of(block.attend(AttentionKind::nystrom), short_rows), expected),
        tolerance);
  }
}

TEST(Nystrom, EmptySequenceGives0) {
  for (const char* company : {"1111111111111", "1100000000000", "0000000000000"}) {
    SCOPED_TRACE(company);
    const Block block({"0000000000000", company}, DType::f32);
    for (const auto kind : {AttentionKind::nystrom, AttentionKind::softmax}) {
      EXPECT_EQ(largest(block.attend(kind).value().slice(0, 0, 1).contiguous()), 0);
    }
  }
}

/// A whole model on short sequences: nystrom and softmax with the same weights give equal results
/// and gradients.
TEST(Nystrom, ModelOfShortSequencesEqualsSoftmaxModel) {
  for (const auto& [dtype, outputs, gradients] :
       {std::tuple(DType::f64, 1e-10, 1e-10), std::tuple(DType::f32, 1e-5, 1e-4)}) {
    SCOPED_TRACE(name_of(dtype));
    const Layout layout{{"111000", "010010", "100000"}};
    const auto run = [&, type = dtype](AttentionKind kind) {
      ModelConfig config = tiny_config();
      config.attention.kind = kind;
      const auto model = make_model(config, type);
      Tape tape;
      const Var tokens =
          at_places((*model)(input_of(config, layout)).last_hidden_state, token_places(layout));
      tape.backward(weighted_sum(tokens));
      return std::pair(tokens.value(), model->parameters().gradients());
    };
    const auto [hidden, gradient] = run(AttentionKind::nystrom);
    const auto [expected_hidden, expected_gradient] = run(AttentionKind::softmax);
    EXPECT_LE(relative_difference(hidden, expected_hidden), outputs);
    EXPECT_LE(relative_difference(gradient, expected_gradient), gradients);
  }
}

}  // namespace
}  // namespace nystrom::testing
