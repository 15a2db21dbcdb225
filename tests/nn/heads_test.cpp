// The inputs of heads and the normalization of their losses.
#include "nn/heads.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"

namespace nystrom::testing {
namespace {

std::vector<double> block_logits(const std::string& row, int filler) {
  ModelConfig config = tiny_config();
  make_sequence_block(config);
  config.head = Head::sequence_classification;
  config.labels = {"a", "b", "c"};
  const auto model = make_model(config, DType::f64);
  const Layout layout{{row}, {}, filler};
  return (*model)(input_of(config, layout)).logits.value().to_doubles();
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_LE(max_difference(a, b), 1e-10);
}

TEST(SequenceBlockHead, ReadsTheLastValidStep) {
  expect_close(block_logits("11100", 1), block_logits("111", 0));
  EXPECT_NE(block_logits("11100", 0), block_logits("11000", 0));
}

/// Logits of a text classifier.
std::vector<double> text_logits(const std::vector<std::string>& rows,
                                const std::vector<int>& sequences, int filler, Pairs pairs,
                                bool dropout = false) {
  ModelConfig config = tiny_config();
  config.head = Head::sequence_classification;
  config.labels = {"a", "b", "c"};
  config.pooling = Pooling::mean;
  config.pairs = pairs;
  const auto model = make_model(config, DType::f64);
  std::vector<std::int64_t> samples;
  for (const int sequence : sequences) samples.push_back(sequence);
  const RunContext run{dropout, false, 3, 4,
                       int_tensor(samples, {static_cast<std::int64_t>(samples.size())})};
  return (*model)(input_of(config, {rows, sequences, filler}), run).logits.value().to_doubles();
}

// ---- Some positions only ------------------------------------------------------------------------

const Layout unequal{{"1111111", "1110000", "1011000"}, {}, 0};

Var column(const Var& x) { return reshape(x, {x.dim(0), x.dim(1), 1}); }

/// The attention kinds whose queries may be those of some rows, and some whose may not.
std::vector<std::pair<const char*, std::function<void(ModelConfig&)>>> attention_changes() {
  return {{"nystrom", [](ModelConfig&) {}},
          {"without convolution", [](ModelConfig& c) { c.attention.conv_kernel_size = {}; }},
          {"fewer landmarks than tokens", [](ModelConfig& c) { c.attention.num_landmarks = 2; }},
          {"landmarks of keys",
           [](ModelConfig& c) { c.attention.landmark_source = LandmarkSource::keys; }},
          {"as transformers",
           [](ModelConfig& c) {
             c.attention.semantics = Semantics::transformers;
             c.segment_means_seq_len = 7;
             c.attention.num_landmarks = 1;
           }},
          {"exact", [](ModelConfig& c) { c.attention.kind = AttentionKind::softmax; }},
          {"window",
           [](ModelConfig& c) {
             c.attention.kind = AttentionKind::softmax;
             c.attention.window = 2;
           }},
          {"linear", [](ModelConfig& c) { c.attention.kind = AttentionKind::linear; }}};
}

/// The last layer then computes the tokens alone that the head reads. Padding is not compared.
TEST(LogitsOnly, EqualThoseOfAllPositions) {
  for (const Head head : {Head::sequence_classification, Head::multiple_choice,
                          Head::token_classification, Head::question_answering}) {
    for (const Norm norm : {Norm::post, Norm::pre}) {
      SCOPED_TRACE(enum_name(head));
      ModelConfig config = tiny_config();
      config.head = head;
      config.norm = norm;
      const auto model = make_model(config, DType::f64);
      const ModelInput input = input_of(config, unequal);
      RunContext run;
      const ModelOutput all = (*model)(input, run);
      run.logits_only = true;
      const ModelOutput some = (*model)(input, run);
      const auto logits = [&](const ModelOutput& out) {
        const bool places = head == Head::token_classification;
        if (places || head == Head::question_answering)
          return at_places(places ? out.logits : column(out.start_logits), token_places(unequal));
        return out.logits;
      };
      expect_close(logits(some).value().to_doubles(), logits(all).value().to_doubles());
    }
  }
}

TEST(Choice, TheHeadReadsThePooledToken) {
  ModelConfig config = tiny_config();
  config.head = Head::multiple_choice;
  config.pooling = Pooling::mean;
  const auto model = make_model(config, DType::f64);
  const ModelInput input = input_of(config, {{"1111111"}, {}, 0});
  RunContext run;
  const Tensor all = (*model)(input, run).logits.value();
  run.logits_only = true;
  expect_close((*model)(input, run).logits.value().to_doubles(), all.to_doubles());
  config.pooling = Pooling::first;
  const auto first = make_model(config, DType::f64);  // the same weights
  EXPECT_GT(std::abs((*first)(input).logits.value().to_doubles()[0] - all.to_doubles()[0]), 1e-6);
}

TEST(LogitsOnly, MaskedTokensEqualThoseOfAllPositions) {
  for (const Norm norm : {Norm::post, Norm::pre}) {
    ModelConfig config = tiny_config();
    config.head = Head::masked_lm;
    config.norm = norm;
    const auto model = make_model(config, DType::f64);
    const ModelInput input = input_of(config, unequal);
    const Tensor all = (*model)(input).logits.value();
    for (const std::int64_t place : {0, 5, 9}) {
      const Tensor one = model->masked_lm_logits(input, {place}).value();
      expect_close(one.to_doubles(),
                   all.reshape({21, config.vocab_size}).slice(0, place, place + 1).to_doubles());
    }
  }
}

TEST(LogitsOnly, GradientsEqualThoseOfAllPositions) {
  const Layout dense{{"1111111", "1111111"}, {}, 0}, behind{{"1111111", "1110000"}, {}, 0};
  for (const Layout& layout : {dense, behind}) {
    for (const auto& [name, change] : attention_changes()) {
      SCOPED_TRACE(name);
      ModelConfig config = tiny_config();
      config.head = Head::sequence_classification;
      change(config);
      const auto gradient = [&](bool logits_only) {
        const auto model = make_model(config, DType::f64);
        RunContext run{.logits_only = logits_only};
        return gradients_and_loss(
            *model, [&] { return sum((*model)(input_of(config, layout), run).logits); });
      };
      expect_close(gradient(true), gradient(false));
    }
  }
}

TEST(LogitsOnly, AMaskedLmStepEqualsThatOfAllPositions) {
  for (const Norm norm : {Norm::post, Norm::pre}) {
    for (const bool order : {false, true}) {
      ModelConfig config = tiny_config();
      config.head = Head::masked_lm;
      config.norm = norm;
      config.sentence_order = order;
      config.hidden_dropout_prob = 0.3;
      const ModelInput input = input_of(config, unequal);
      const RunContext run{true, false, 3, 4, int_tensor({12, 5, 7}, {3})};
      std::vector<std::int64_t> labels(21, ignore_index);
      labels[3] = 2, labels[7] = 1, labels[9] = 4;
      const auto step = [&](const auto& outputs) {
        const auto model = make_model(config, DType::f64);
        return gradients_and_loss(*model, [&] { return outputs(*model); });
      };
      const std::vector<double> some = step([&](const Model& model) {
        const MaskedLmOutput out = model.masked_lm(input, int_tensor(labels, {3, 7}), 3, run);
        return order ? out.loss + sum(out.order_logits) : out.loss;
      });
      const std::vector<double> all = step([&](const Model& model) {
        const ModelOutput out = model(input, run);
        const Var logits = reshape(out.logits, {21, config.vocab_size});
        Var loss = cross_entropy(logits, int_tensor(labels, {21}), 3);
        if (!order) return loss;
        const Var first = reshape(slice(out.last_hidden_state, 1, 0, 1), {3, config.hidden_size});
        const auto parameter = [&](const char* name) {
          for (const Parameter& each : model.parameters().parameters())
            if (each.name() == std::string("cls.seq_relationship.") + name) return each.var();
          return Var();
        };
        return loss + sum(linear_unrounded(first, parameter("weight"), parameter("bias")));
      });
      EXPECT_LE(max_difference(some, all), 1e-12);
    }
  }
}

TEST(MeanPooling, DependsOnNoPadding) {
  expect_close(text_logits({"111110"}, {4}, 1, Pairs::joined),
               text_logits({"11111"}, {4}, 0, Pairs::joined));
  EXPECT_NE(text_logits({"11111"}, {4}, 0, Pairs::joined),
            text_logits({"11110"}, {4}, 0, Pairs::joined));
}

TEST(MeanPooling, OfNothingIsZero) {
  const auto empty = text_logits({"0000"}, {1}, 0, Pairs::joined);
  expect_close(empty, text_logits({"000000"}, {2}, 1, Pairs::joined));
  for (const double logit : empty) EXPECT_TRUE(std::isfinite(logit));
}

TEST(TowerFeatures, AreBothTextsTheirProductAndTheirDifference) {
  const Var pooled(Tensor::from(std::vector<double>{1, 2, 3, 5, -1, 0, 4, 2}, {4, 2}));
  EXPECT_EQ(tower_features(pooled).value().to_doubles(),
            (std::vector<double>{1, 2, 3, 5, 3, 10, -2, -3, -1, 0, 4, 2, -4, 0, -5, -2}));
  EXPECT_THROW(tower_features(Var(Tensor::from(std::vector<double>{1, 2, 3}, {3, 1}))), Error);
}

TEST(Towers, DependOnNoPaddingAndOnNoOtherPair) {
  const auto alone = text_logits({"11111", "11000"}, {4, 7}, 0, Pairs::towers);
  const auto padded =
      text_logits({"11111000", "11000000", "11111111", "10000000"}, {4, 7, 2, 3}, 1, Pairs::towers);
  expect_close({padded.begin(), padded.begin() + 3}, alone);
}

TEST(Towers, ReadTheTextsInOrder) {
  EXPECT_NE(text_logits({"11111", "11000"}, {4, 7}, 0, Pairs::towers),
            text_logits({"11000", "11111"}, {7, 4}, 0, Pairs::towers));
}

TEST(Towers, DrawDropoutByTheSampleAlone) {
  const auto alone = text_logits({"11111", "11000"}, {4, 5}, 0, Pairs::towers, true);
  const auto behind = text_logits({"11100000", "10000000", "11111000", "11000000"}, {8, 9, 4, 5}, 1,
                                  Pairs::towers, true);
  expect_close({behind.begin() + 3, behind.end()}, alone);
}

/// In bf16 the logits of different texts would often be equal, and metrics would count ties.
TEST(Heads, LogitsOfBf16AreNotRounded) {
  for (const Head head :
       {Head::masked_lm, Head::sequence_classification, Head::token_classification,
        Head::question_answering, Head::multiple_choice}) {
    SCOPED_TRACE(enum_name(head));
    ModelConfig config = tiny_config();
    config.head = head;
    const auto model = make_model(config, DType::bf16);
    const ModelOutput out = (*model)(input_of(config, {{"11111", "11100"}}));
    for (const Var& logits : {out.logits, out.start_logits, out.end_logits}) {
      if (!logits.defined()) continue;
      EXPECT_EQ(logits.dtype(), DType::f32);
      EXPECT_NE(logits.value().contiguous().to_doubles(),
                logits.value().cast(DType::bf16).to_doubles());
    }
  }
}

TEST(QuestionAnsweringLoss, IsDividedByItsNormaliser) {
  const Var start(random_normal({3, 5}, 1)), end(random_normal({3, 5}, 2));
  const Tensor from = Tensor::from(std::vector<std::int64_t>{0, 2, 4}, {3}),
               to = Tensor::from(std::vector<std::int64_t>{1, 3, 4}, {3});
  const double mean = question_answering_loss(start, end, from, to).value().item();
  EXPECT_NEAR(question_answering_loss(start, end, from, to, 12).value().item(), mean / 4, 1e-12);
}

}  // namespace
}  // namespace nystrom::testing
