// Rows of tokens without padding: they give what each sample gives alone.
#include "nn/token_rows.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

/// Loss and gradients of a masked-LM step on the samples of `layouts`, one micro-batch each. The
/// targets are the second tokens.
std::vector<double> step(const ModelConfig& config, const std::vector<Layout>& layouts) {
  const auto model = make_model(config, DType::f64);
  double loss = 0;
  for (const Layout& layout : layouts) {
    const std::int64_t rows = layout.batch(), length = layout.length();
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows * length), ignore_index);
    std::vector<std::int64_t> samples;
    for (std::int64_t row = 0; row < rows; ++row) {
      labels[static_cast<std::size_t>(row * length + 1)] = 3;
      samples.push_back(layout.sequence(static_cast<std::size_t>(row)));
    }
    const RunContext run{true, false, 3, 4, int_tensor(samples, {rows})};
    Tape tape;
    const Var part =
        model->masked_lm(input_of(config, layout), int_tensor(labels, {rows, length}), 3, run).loss;
    tape.backward(part);
    loss += part.value().item();
  }
  std::vector<double> numbers = model->parameters().gradients().to_doubles();
  numbers.push_back(loss);
  return numbers;
}

TEST(TokenRows, ABatchWithoutItsPaddingGivesWhatItsSamplesGiveAlone) {
  for (const AttentionKind kind :
       {AttentionKind::nystrom, AttentionKind::softmax, AttentionKind::double_softmax,
        AttentionKind::linear, AttentionKind::performer}) {
    for (const Norm norm : {Norm::post, Norm::pre}) {
      SCOPED_TRACE(enum_name(kind));
      ModelConfig config = tiny_config();
      config.head = Head::masked_lm;
      config.attention.kind = kind;
      config.norm = norm;
      const std::vector<double> together =
          step(config, {{{"11111111", "11100000", "11000000"}, {}, 1}});
      const std::vector<double> alone =
          step(config, {{{"11111111"}, {0}, 0}, {{"111"}, {1}, 0}, {{"11"}, {2}, 0}});
      ASSERT_EQ(together.size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-12);
    }
  }
}

TEST(TokenRows, PlacesAreTheInverseOfRows) {
  const Tensor valid = Tensor::from(std::vector<std::uint8_t>{0, 1, 1, 0, 1, 0, 0, 0}, {2, 4});
  const SequenceMask mask(valid);
  const TokenRows tokens = TokenRows::of_tokens(mask, {}, cpu_device);
  const Var x = Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4, 1});
  const Var rows = tokens.rows_of(x);
  EXPECT_EQ(rows.value().to_doubles(), (std::vector<double>{1, 2, 3, 5}))
      << "with the first position of each row";
  EXPECT_EQ(tokens.in_places(rows, mask).value().to_doubles(),
            (std::vector<double>{1, 2, 3, 0, 5, 0, 0, 0}));
  const TokenRows read = tokens.chosen({4, 1}, mask, {}, cpu_device);
  EXPECT_EQ(read.rows_of(rows).value().to_doubles(), (std::vector<double>{5, 2}));
}

/// A classifier of a row without tokens, or with padding at its begin, reads the first position.
TEST(TokenRows, TheFirstPositionIsComputedEvenWhereItIsPadding) {
  ModelConfig config = tiny_config();
  config.head = Head::sequence_classification;
  const auto model = make_model(config, DType::f64);
  const auto first_logits = [&](const std::vector<std::string>& rows) {
    RunContext run;
    run.logits_only = true;
    const Tensor all = (*model)(input_of(config, {rows, {}, 1}), run).logits.value();
    return all.slice(0, 0, 1).contiguous().to_doubles();
  };
  for (const std::string row : {"00000000", "00011111"}) {
    std::vector<std::string> little_padding(20, "11111111");
    little_padding[0] = row;
    const std::vector<double> left_out = first_logits({row}), kept = first_logits(little_padding);
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_NEAR(left_out[i], kept[i], 1e-12) << row;
  }
}

TEST(TokenRows, LittlePaddingStays) {
  std::vector<std::uint8_t> valid(16, 1);
  valid[15] = valid[14] = 0;
  const auto tokens = [&] {
    return TokenRows::of_tokens(SequenceMask(Tensor::from(valid, {2, 8})), {}, cpu_device);
  };
  EXPECT_TRUE(tokens().all()) << "an eighth";
  valid[13] = 0;
  EXPECT_FALSE(tokens().all());
}

}  // namespace
}  // namespace nystrom::testing
