// Batches of rows without padding: they give what each sample gives alone.
#include "nn/ragged.h"

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

TEST(Ragged, ABatchWithoutItsPaddingGivesWhatItsSamplesGiveAlone) {
  for (const AttentionKind kind :
       {AttentionKind::nystrom, AttentionKind::softmax, AttentionKind::double_softmax,
        AttentionKind::linear, AttentionKind::performer}) {
    for (const Norm norm : {Norm::post, Norm::pre}) {
      SCOPED_TRACE(enum_name(kind));
      ModelConfig config = masked_lm_config();
      config.attention.kind = kind;
      config.norm = norm;
      const std::vector<double> together =
          step(config, {{{"11111111", "11100000", "11000000"}, {}, 1}});
      const std::vector<double> alone =
          step(config, {{{"11111111"}, {0}, 0}, {{"111"}, {1}, 0}, {{"11"}, {2}, 0}});
      EXPECT_LE(max_difference(together, alone), 1e-12);
    }
  }
}

TEST(Ragged, RowsMayHaveNoColumns) {
  EXPECT_EQ(flat_rows(Tensor::zeros({2, 3, 0}, DType::f32)).shape(), (Shape{6, 0}));
}

TEST(Ragged, PlacesAreTheInverseOfRows) {
  const Tensor valid = Tensor::from(std::vector<std::uint8_t>{0, 1, 1, 0, 1, 0, 0, 0}, {2, 4});
  const Ragged batch(valid);
  const Var x = Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4, 1});
  const Var rows = batch.rows_of(x);
  EXPECT_EQ(rows.value().to_doubles(), (std::vector<double>{1, 2, 3, 5}))
      << "with the first position of each sequence";
  EXPECT_EQ(batch.in_places(rows).value().to_doubles(),
            (std::vector<double>{1, 2, 3, 0, 5, 0, 0, 0}));
  EXPECT_EQ(batch.in_places(rows, true).value().to_doubles(),
            (std::vector<double>{0, 2, 3, 0, 5, 0, 0, 0}));
  EXPECT_EQ(batch.rows_of(std::vector<std::int64_t>{4, 1}), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(batch.places(0), (std::vector<std::int64_t>{1, 2}));
  EXPECT_FALSE(batch.without_gaps());
}

TEST(Ragged, SplitsSequencesByTheirTokens) {
  const auto rows = [](const std::optional<SequenceSpans>& spans) {
    return spans ? std::pair(spans->queries.count(0), spans->keys.rows()) : std::pair(0L, 0L);
  };
  const Ragged batch(mask_of({{"11100", "11111", "10000", "01110"}}));
  EXPECT_EQ(rows(batch.split(3).few), std::pair(3L, 7L));
  EXPECT_EQ(rows(batch.split(3).many), std::pair(1L, 5L));
  EXPECT_FALSE(batch.split(5).many);
  EXPECT_FALSE(batch.split(0).few);
}

/// A head reads the first position even where it is padding. There the row attends to the tokens,
/// as it does where padding has rows.
TEST(Ragged, TheFirstPositionIsComputedEvenWhereItIsPadding) {
  std::vector<std::vector<double>> logits;
  for (const Semantics semantics : {Semantics::nystrom, Semantics::transformers}) {
    ModelConfig config = tiny_config();
    config.head = Head::sequence_classification;
    config.attention.kind = AttentionKind::softmax;
    config.attention.conv_kernel_size = std::nullopt;
    config.attention.semantics = semantics;
    const auto model = make_model(config, DType::f64);
    logits.push_back((*model)(input_of(config, {{"00011111", "01101110", "11111100"}, {}, 1}))
                         .logits.value()
                         .to_doubles());
  }
  EXPECT_LE(max_difference(logits[0], logits[1]), 1e-12);
}

TEST(Ragged, OfTokensAloneIsDense) {
  EXPECT_TRUE(Ragged(mask_of({{"111", "111"}})).dense());
  EXPECT_FALSE(Ragged(mask_of({{"111", "110"}})).dense());
  const Ragged kept(mask_of({{"111", "110"}}), cpu_device, Padding::kept);
  EXPECT_TRUE(kept.dense());
  EXPECT_EQ(kept.key_mask().to_doubles(), (std::vector<double>{1, 1, 1, 1, 1, 0}));
}

}  // namespace
}  // namespace nystrom::testing
