// Input as rows of tokens gives what padded input gives.
#include <gtest/gtest.h>

#include "tests/support/models.h"
#include "tests/support/named.h"

namespace nystrom::testing {
namespace {

struct RowsCase : Named {
  void (*change)(ModelConfig&);
  std::vector<std::string> rows = {"111111111", "111110000", "110000000"};
};

const std::vector<std::string> equal_rows = {"11111", "11111"},
                               with_empty_rows = {"0000", "1111", "1100"};

const RowsCase rows_cases[] = {
    {"hidden", [](ModelConfig&) {}},
    {"of_one_length", [](ModelConfig&) {}, equal_rows},
    {"with_an_empty_sequence", [](ModelConfig&) {}, with_empty_rows},
    {"masked_lm", [](ModelConfig& c) { c.head = Head::masked_lm; }},
    {"replaced_tokens", [](ModelConfig& c) { c.head = Head::replaced_tokens; }},
    {"classes", [](ModelConfig& c) { c.head = Head::sequence_classification; }},
    {"classes_of_an_empty_sequence", [](ModelConfig& c) { c.head = Head::sequence_classification; },
     with_empty_rows},
    {"means",
     [](ModelConfig& c) {
       c.head = Head::sequence_classification;
       c.pooling = Pooling::mean;
     }},
    {"words", [](ModelConfig& c) { c.head = Head::token_classification; }},
    {"answers", [](ModelConfig& c) { c.head = Head::question_answering; }},
    {"features", [](ModelConfig& c) { make_sequence_block(c); }},
    {"features_of_one_length", [](ModelConfig& c) { make_sequence_block(c); }, equal_rows},
    {"features_of_an_empty_sequence", [](ModelConfig& c) { make_sequence_block(c); },
     with_empty_rows},
    {"positions_that_skip_padding", [](ModelConfig& c) { c.positions = Positions::skip_padding; }},
    {"positions_that_skip_padding_of_one_length",
     [](ModelConfig& c) { c.positions = Positions::skip_padding; }, equal_rows},
    {"reformer", [](ModelConfig& c) { c.attention.kind = AttentionKind::reformer; }},
    {"as_transformers", [](ModelConfig& c) { c.attention.semantics = Semantics::transformers; }},
    {"words_as_transformers",
     [](ModelConfig& c) {
       c.attention.semantics = Semantics::transformers;
       c.head = Head::token_classification;
     }},
};

class RowsInput : public ::testing::TestWithParam<RowsCase> {
 protected:
  RowsInput() { GetParam().change(config_); }

  /// The padded input. In the semantics of transformers, ids at padding matter.
  ModelInput padded() const {
    ModelInput input = input_of(config_, {GetParam().rows});
    for (std::int64_t i = 0; input.input_ids.defined() && i < input.input_ids.numel(); ++i) {
      if (input.attention_mask.data<std::uint8_t>()[i] != 0) continue;
      input.input_ids.data<std::int64_t>()[i] = config_.pad_token_id.value();
      input.token_type_ids.data<std::int64_t>()[i] = 0;
    }
    return input;
  }
  /// Outputs for each token: those of padded input at its tokens.
  Tensor of_tokens(const Var& output) const {
    return output.rank() == 3 ? at_places(output, token_places({GetParam().rows})).value()
                              : output.value();
  }

  ModelConfig config_ = tiny_config();
};

TEST_P(RowsInput, GivesWhatPaddedInputGives) {
  const auto model = make_model(config_, DType::f64);
  const ModelOutput expected = (*model)(padded()), got = (*model)(without_padding(padded()));
  EXPECT_EQ(got.last_hidden_state.rank(), 2);
  EXPECT_LE(
      relative_difference(got.last_hidden_state.value(), of_tokens(expected.last_hidden_state)),
      1e-12);
  for (const auto& [a, b] : {std::pair(&got.logits, &expected.logits),
                             std::pair(&got.start_logits, &expected.start_logits),
                             std::pair(&got.end_logits, &expected.end_logits),
                             std::pair(&got.output, &expected.output)}) {
    ASSERT_EQ(a->defined(), b->defined());
    if (!a->defined()) continue;
    const bool of_tokens_alone = config_.head == Head::replaced_tokens && a == &got.logits;
    const bool of_positions = a == &got.start_logits || a == &got.end_logits || of_tokens_alone;
    const Var x = of_positions ? reshape(*a, a->shape().append(1)) : *a,
              y = of_positions ? reshape(*b, b->shape().append(1)) : *b;
    EXPECT_LE(relative_difference(of_tokens(x), of_tokens(y)), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RowsInput, ::testing::ValuesIn(rows_cases), case_name);

TEST(RowsInputOfExactTransformers, GivesWhatEachSequenceGivesAlone) {
  ModelConfig config = tiny_config();
  config.attention.semantics = Semantics::transformers;
  config.segment_means_seq_len = config.attention.num_landmarks;
  const auto model = make_model(config, DType::f64);
  const auto hidden = [&](const Layout& layout) {
    return (*model)(without_padding(input_of(config, layout))).last_hidden_state.value();
  };
  const std::vector<double> together = hidden({{"11111111", "11100000", "11000000"}}).to_doubles();
  std::vector<double> alone;
  for (const auto& [row, sequence] : {std::pair("11111111", 0), {"111", 1}, {"11", 2}})
    std::ranges::copy(hidden({{row}, {sequence}}).to_doubles(), std::back_inserter(alone));
  EXPECT_LE(max_difference(together, alone), 1e-12);
}

TEST(RowsInputTraining, DropsWhatPaddedInputDrops) {
  const ModelConfig config = masked_lm_config();
  const ModelInput padded = input_of(config, {{"111111", "111100", "110000"}});
  const RunContext run{true, false, 3, 4, int_tensor({7, 8, 9}, {3})};
  const auto trained = [&](const ModelInput& input, const Tensor& labels) {
    const auto model = make_model(config, DType::f64);
    return gradients_and_loss(*model, [&] { return model->masked_lm(input, labels, 3, run).loss; });
  };
  constexpr std::int64_t none = ignore_index;
  const auto rows = trained(
                 without_padding(padded),
                 int_tensor({none, 3, none, none, none, 4, none, 5, none, none, none, 6}, {12})),
             positions = trained(padded, int_tensor({none, 3, none, none, none, 4,     //
                                                     none, 5, none, none, none, none,  //
                                                     none, 6, none, none, none, none},
                                                    {3, 6}));
  EXPECT_LE(max_difference(rows, positions), 1e-12);
}

}  // namespace
}  // namespace nystrom::testing
