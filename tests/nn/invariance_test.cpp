// Results do not depend on padding or on the other samples of the batch: neither on the content nor
// on the amount of padding.
#include <gtest/gtest.h>

#include "tests/support/models.h"
#include "tests/support/named.h"

namespace nystrom::testing {
namespace {

struct InvarianceCase : Named {
  void (*change)(ModelConfig&);
  bool f64_alone = false;
  bool sees_places = false;  ///< depends on the positions of tokens in a row
};

using C = ModelConfig;
const InvarianceCase invariance_cases[] = {
    {"defaults", [](C&) {}},
    {"conv_33", [](C& c) { c.attention.conv_kernel_size = 33; }},
    {"no_conv", [](C& c) { c.attention.conv_kernel_size.reset(); }},
    {"keys", [](C& c) { c.attention.landmark_source = LandmarkSource::keys; }},
    {"identity_inverse", [](C& c) { c.attention.inverse = Inverse::identity; }},
    // In gradients an exact inverse amplifies rounding by the square of A's condition number, with
    // or without padding. With two landmarks that serve as queries and keys, A is well conditioned.
    // f64 has enough digits for any A.
    {"exact_inverse",
     [](C& c) {
       c.attention = {
           .num_landmarks = 2, .landmark_source = LandmarkSource::keys, .inverse = Inverse::exact};
     }},
    {"exact_inverse_of_any_landmarks", [](C& c) { c.attention.inverse = Inverse::exact; }, true},
    {"softmax", [](C& c) { c.attention.kind = AttentionKind::softmax; }},
    {"double_softmax", [](C& c) { c.attention.kind = AttentionKind::double_softmax; }},
    {"linear", [](C& c) { c.attention.kind = AttentionKind::linear; }},
    {"performer",
     [](C& c) { c.attention.kind = AttentionKind::performer, c.attention.num_features = 12; }},
    {"linformer",
     [](C& c) { c.attention.kind = AttentionKind::linformer, c.attention.projected_length = 6; },
     false, true},
    {"linformer_per_head",
     [](C& c) {
       c.attention.kind = AttentionKind::linformer, c.attention.projected_length = 6;
       c.attention.projection_sharing = ProjectionSharing::per_head;
     },
     false, true},
    {"reformer",
     [](C& c) { c.attention.kind = AttentionKind::reformer, c.attention.bucket_size = 4; }},
    {"pre_norm", [](C& c) { c.norm = Norm::pre; }},
    {"sequence_block", make_sequence_block},
};

struct Tolerance {
  DType dtype;
  double outputs, gradients;
};
constexpr Tolerance tolerances[] = {{DType::f64, 1e-10, 1e-10}, {DType::f32, 1e-5, 1e-4}};

ModelConfig invariance_config(const InvarianceCase& test) {
  ModelConfig config = wider_config();
  test.change(config);
  return config;
}

struct Results {
  Tensor outputs;  // at the tokens of the compared rows, in order
  std::vector<std::pair<std::string, Tensor>> gradients;
};

/// The outputs for the tokens of `rows` in a batch, and the gradients of a loss of these tokens
/// alone.
Results evaluate(const ModelConfig& config, DType dtype, const Layout& layout,
                 const std::vector<std::size_t>& rows, bool dropout = false) {
  const auto model = make_model(config, dtype);
  std::vector<std::int64_t> samples;
  for (std::size_t b = 0; b < layout.rows.size(); ++b) samples.push_back(100 + layout.sequence(b));
  const RunContext run{dropout, false, 11, 5, int_tensor(samples, {layout.batch()})};
  Tape tape;
  const ModelOutput out = (*model)(input_of(config, layout), run);
  const Var tokens = at_places(out.last_hidden_state, token_places(layout, rows));
  tape.backward(weighted_sum(tokens));
  Results results{tokens.value().clone(), {}};
  const auto tokens_of_row = [&](std::size_t row) {
    return std::count(layout.rows[row].begin(), layout.rows[row].end(), '1');
  };
  const bool short_row = rows.size() == 1 && tokens_of_row(rows[0]) <=
                                                 config.attention.num_landmarks;  // exact attention
  for (const Parameter& parameter : model->parameters().parameters()) {
    if (is_key_bias(parameter.name()) && (short_row || key_bias_is_inert(config)))
      continue;  // rounding around 0
    results.gradients.emplace_back(parameter.name(),
                                   model->parameters().gradient(parameter.name()).clone());
  }
  return results;
}

void expect_equal(const Results& got, const Results& expected, const Tolerance& tolerance) {
  EXPECT_LE(relative_difference(got.outputs, expected.outputs), tolerance.outputs);
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    EXPECT_LE(relative_difference(got.gradients[i].second, expected.gradients[i].second),
              tolerance.gradients)
        << got.gradients[i].first;
  }
}

/// Compares rows of one layout with rows of another that contain the same sequences, in all types
/// of the case.
void expect_same(const InvarianceCase& test, const ModelConfig& config, const Layout& layout,
                 const Layout& other, bool dropout = false,
                 const std::vector<std::size_t>& rows = {},
                 const std::vector<std::size_t>& other_rows = {}) {
  for (const Tolerance& tolerance : tolerances) {
    if (test.f64_alone && tolerance.dtype != DType::f64) continue;
    SCOPED_TRACE(name_of(tolerance.dtype));
    expect_equal(evaluate(config, tolerance.dtype, other, other_rows, dropout),
                 evaluate(config, tolerance.dtype, layout, rows, dropout), tolerance);
  }
}

/// Long rows with and without holes, a row with as many tokens as landmarks, a shorter row, and an
/// empty row.
const std::vector<std::string> rows = {"11111011110111111011", "11111111111111111111",
                                       "01001001000000010000", "11000000000000000000",
                                       "00000000000000000000", "10101010101010101010"};

class Invariance : public ::testing::TestWithParam<InvarianceCase> {};

TEST_P(Invariance, OfWhatPaddingHolds) {
  const ModelConfig config = invariance_config(GetParam());
  expect_same(GetParam(), config, {rows, {}, 0}, {rows, {}, 1});
}

TEST_P(Invariance, OfPaddingOnTheRight) {
  for (const std::size_t amount : {1, 13, 120}) {
    SCOPED_TRACE(amount);
    Layout longer{rows, {}, 2};
    for (auto& row : longer.rows) row += std::string(amount, '0');
    expect_same(GetParam(), invariance_config(GetParam()), {rows}, longer);
  }
}

TEST_P(Invariance, OfTheRestOfTheBatch) {
  const ModelConfig config = invariance_config(GetParam());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].find('1') == std::string::npos) continue;  // nothing to compare
    SCOPED_TRACE(rows[row]);
    expect_same(GetParam(), config, {{rows[row]}, {static_cast<int>(row)}}, {rows}, false, {0},
                {row});
  }
}

/// Attention without positions and convolution is a function of a set of tokens, so padding may be
/// anywhere.
TEST_P(Invariance, OfPaddingAnywhere) {
  if (GetParam().sees_places) GTEST_SKIP() << "each place has weights of its own";
  ModelConfig config = invariance_config(GetParam());
  config.positions = Positions::none;
  config.attention.conv_kernel_size.reset();
  expect_same(GetParam(), config, {{"1111111111000", "1110000000000"}},
              {{"000110010111001111", "000000100010000001"}, {}, 1});
}

TEST_P(Invariance, OfDropoutMasks) {
  const ModelConfig config = invariance_config(GetParam());
  const Layout batch{{"1111111110", "1100000000", "1111101111"}, {0, 1, 2}};
  const Layout other{{"11111011110000", "11111111110000", "11111111100000"},
                     {2, 3, 0},
                     1};  // row 0 is row 2 of the first batch
  expect_same(GetParam(), config, batch, other, true, {2}, {0});
}

INSTANTIATE_TEST_SUITE_P(Options, Invariance, ::testing::ValuesIn(invariance_cases), case_name);

TEST(DropoutOfModel, ChangesWithTheSample) {
  const ModelConfig config = invariance_config(invariance_cases[0]);
  const auto model = make_model(config, DType::f64);
  const ModelInput input = input_of(config, {{"11111"}});
  const auto hidden = [&](std::int64_t sample) {
    return (*model)(input, {true, false, 11, 5, int_tensor({sample}, {1})})
        .last_hidden_state.value();
  };
  EXPECT_GT(relative_difference(hidden(1), hidden(2)), 0.1);
}

TEST(ActivationCheckpointing, GivesTheSameBits) {
  ModelConfig config = invariance_config(invariance_cases[0]);
  config.head = Head::masked_lm;
  const ModelInput input = input_of(config, {rows});
  Tensor labels = Tensor::full({6, 20}, 3, DType::i64);
  for (std::int64_t i = 0; i < labels.numel(); ++i)
    if (input.attention_mask.data<std::uint8_t>()[i] == 0)
      labels.data<std::int64_t>()[i] = ignore_index;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const auto run = [&](bool checkpointing) {
      const auto model = make_model(config, dtype);
      const RunContext context{true, checkpointing, 11, 5, ints(0, 1, 2, 3, 4, 5)};
      return gradients_and_loss(*model,
                                [&] { return model->masked_lm(input, labels, 0, context).loss; });
    };
    EXPECT_EQ(run(true), run(false));
  }
}

}  // namespace
}  // namespace nystrom::testing
