// The exact errors of run_forward, and the shapes and types of its results.
#include "train/export/forward.h"

#include <gtest/gtest.h>

#include "tests/support/models.h"
#include "tests/support/named.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

using C = ModelConfig;

Tensor ones(const Shape& shape) { return Tensor::full(shape, 1, DType::i64); }

/// A valid batch of two sequences of four tokens, or of features, for any head.
NamedTensors valid_inputs(const ModelConfig& config) {
  if (config.embed_dim) return {{"features", random_normal({2, 4, *config.embed_dim}, 1)}};
  if (config.head == Head::multiple_choice) return {{"input_ids", ones({2, 3, 4})}};
  return {{"input_ids", int_tensor({2, 3, 4, 5, 6, 7, 8, 0}, {2, 4})}};
}

/// Ones of a shape, or the values given.
struct Given {
  Shape shape = {};
  std::vector<std::int64_t> values = {};
  DType dtype = DType::i64;

  Tensor tensor() const {
    return values.empty() ? Tensor::full(shape, 1, dtype) : int_tensor(values, shape);
  }
};

const Given none;
Given shaped(const Shape& shape, const std::vector<std::int64_t>& values = {},
             DType dtype = DType::i64) {
  return {shape, values, dtype};
}

struct Case : Named {
  void (*config)(ModelConfig&);
  const char* input;
  Given given;  // takes its place; none: it is left out
  const char* message;
  bool gradients = false;
};

void plain(C&) {}
void mlm(C& c) { c.head = Head::masked_lm; }
void classes(C& c) { c.head = Head::sequence_classification; }
void regression(C& c) { c.head = Head::sequence_classification, c.labels = {"score"}; }
void tokens(C& c) { c.head = Head::token_classification; }
void questions(C& c) { c.head = Head::question_answering; }
void choice(C& c) { c.head = Head::multiple_choice; }

const Case cases[] = {
    {"no_ids", plain, "input_ids", none, "the input has no tensor input_ids"},
    {"ids_of_floats", plain, "input_ids", shaped({2, 4}, {}, DType::f32),
     "input_ids is f32; expected i64, i32 or u8"},
    {"ids_of_rank_1", plain, "input_ids", shaped({4}), "input_ids are [4]; expected [b, n]"},
    {"ids_of_rank_3", plain, "input_ids", shaped({1, 2, 4}),
     "input_ids are [1, 2, 4]; expected [b, n]"},
    {"no_rows", plain, "input_ids", shaped({0, 4}),
     "input_ids are [0, 4]; expected at least one sequence of at least one position"},
    {"no_positions", classes, "input_ids", shaped({2, 0}),
     "input_ids are [2, 0]; expected at least one sequence of at least one position"},
    {"id_beyond_vocabulary", plain, "input_ids", shaped({2, 4}, {2, 3, 4, 5, 6, 7, 9, 0}),
     "input_ids[1, 2] is 9; expected 0 … 8"},
    {"negative_id", plain, "input_ids", shaped({2, 4}, {-1, 3, 4, 5, 6, 7, 8, 0}),
     "input_ids[0, 0] is -1; expected 0 … 8"},
    {"huge_id", plain, "input_ids", shaped({2, 4}, {2, 9223372036854775807, 4, 5, 6, 7, 8, 0}),
     "input_ids[0, 1] is 9223372036854775807; expected 0 … 8"},
    {"too_long", plain, "input_ids", shaped({1, 10}),
     "the sequence has 10 positions, but max_position_embeddings is 9; shorten it, or extend the "
     "model"},
    {"mask_of_2", plain, "attention_mask", shaped({2, 4}, {1, 1, 1, 2, 1, 1, 0, 0}),
     "attention_mask[0, 3] is 2; expected 0 … 1"},
    {"mask_of_other_shape", plain, "attention_mask", shaped({2, 3}),
     "attention_mask is [2, 3]; expected [2, 4]"},
    {"mask_of_floats", plain, "attention_mask", shaped({2, 4}, {}, DType::f64),
     "attention_mask is f64; expected i64, i32 or u8"},
    {"misspelt_mask", plain, "atention_mask", shaped({2, 4}),
     "the model has no use for the input tensor atention_mask; did you mean 'attention_mask'?; it "
     "takes attention_mask, input_ids, token_type_ids"},
    {"type_beyond_types", plain, "token_type_ids", shaped({2, 4}, {2, 1, 1, 1, 1, 1, 1, 1}),
     "token_type_ids[0, 0] is 2; expected 0 … 1"},
    {"types_of_other_shape", plain, "token_type_ids", shaped({1, 4}),
     "token_type_ids is [1, 4]; expected [2, 4]"},
    {"mlm_label", mlm, "labels", shaped({2, 4}, {-100, 9, 1, 1, 1, 1, 1, 1}),
     "labels[0, 1] is 9; expected 0 … 8 or -100"},
    {"mlm_negative_label", mlm, "labels", shaped({2, 4}, {-100, -1, 1, 1, 1, 1, 1, 1}),
     "labels[0, 1] is -1; expected 0 … 8 or -100"},
    {"mlm_labels_of_sequences", mlm, "labels", shaped({2}), "labels is [2]; expected [2, 4]"},
    {"class", classes, "labels", shaped({2}, {0, 2}), "labels[1] is 2; expected 0 … 1 or -100"},
    {"classes_of_tokens", classes, "labels", shaped({2, 4}), "labels is [2, 4]; expected [2]"},
    {"score_of_integers", regression, "labels", shaped({2}), "labels is i64; expected f32"},
    {"token_label", tokens, "labels", shaped({2, 4}, {2, 1, 1, 1, 1, 1, 1, 1}),
     "labels[0, 0] is 2; expected 0 … 1 or -100"},
    {"no_end", questions, "start_positions", shaped({2}), "the input has no tensor end_positions"},
    {"positions_of_tokens", questions, "start_positions", shaped({2, 4}),
     "start_positions is [2, 4]; expected [2]"},
    {"labels_of_questions", questions, "labels", shaped({2}),
     "the model has no use for the input tensor labels; it takes attention_mask, end_positions, "
     "input_ids, start_positions, token_type_ids"},
    {"choices_of_rank_2", choice, "input_ids", shaped({2, 4}),
     "input_ids are [2, 4]; expected [b, choices, n]"},
    {"no_choices", choice, "input_ids", shaped({2, 0, 4}),
     "input_ids are [2, 0, 4]; expected at least one sequence of at least one position"},
    {"choice", choice, "labels", shaped({2}, {0, 3}), "labels[1] is 3; expected 0 … 2 or -100"},
    {"labels_of_bare_encoder", plain, "labels", shaped({2}),
     "the model has no use for the input tensor labels; it takes attention_mask, input_ids, "
     "token_type_ids"},
    {"unused", mlm, "position_ids", shaped({2, 4}),
     "the model has no use for the input tensor position_ids; it takes attention_mask, input_ids, "
     "labels, token_type_ids"},
    {"gradients_without_labels", mlm, "", none,
     "gradients need a loss, and the input holds no labels", true},
    {"features_of_no_positions", make_sequence_block, "features", shaped({2, 0, 5}, {}, DType::f32),
     "features are [2, 0, 5]; expected at least one sequence of at least one position"},
    {"no_features", make_sequence_block, "features", none, "the input has no tensor features"},
    {"features_of_other_width", make_sequence_block, "features", shaped({2, 4, 6}, {}, DType::f32),
     "features is [2, 4, 6]; expected [2, 4, 5]"},
    {"features_of_rank_2", make_sequence_block, "features", shaped({4, 5}, {}, DType::f32),
     "features are [4, 5]; expected [b, n, 5]"},
    {"features_of_integers", make_sequence_block, "features", shaped({2, 4, 5}),
     "features is i64; expected f32"},
    {"transformers_length", [](C& c) { c.attention.semantics = Semantics::transformers; }, "", none,
     "semantics transformers needs sequences padded to segment_means_seq_len 9, got length 4; pad "
     "them, or set model.attention.semantics=nystrom"},
};

class ForwardErrors : public ::testing::TestWithParam<Case> {};

TEST_P(ForwardErrors, SayWhatIsWrong) {
  ModelConfig config = tiny_config();
  GetParam().config(config);
  const auto model = make_model(config, DType::f32);
  NamedTensors inputs = valid_inputs(config);
  inputs.erase(GetParam().input);
  if (GetParam().given.shape.rank() > 0) inputs[GetParam().input] = GetParam().given.tensor();
  EXPECT_EQ(input_error([&] { run_forward(*model, inputs, GetParam().gradients); }),
            GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Inputs, ForwardErrors, ::testing::ValuesIn(cases), case_name);

TEST(ForwardErrors, NameTheInputThatWasMeant) {
  const auto model = make_model(tiny_config(), DType::f32);
  EXPECT_EQ(input_error([&] {
              run_forward(*model, {{"input_idz", ones({2, 4})}}, false);
            }),
            "the input has no tensor input_ids; did you mean 'input_idz'?");
}

std::map<std::string, Tensor> by_name(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor);
  return result;
}

using Lines = std::vector<std::string>;

/// "name dtype shape" of all results of a head for a valid batch.
Lines signature(void (*change)(ModelConfig&), DType dtype, const NamedTensors& labels) {
  ModelConfig config = tiny_config();
  change(config);
  const auto model = make_model(config, dtype);
  NamedTensors inputs = valid_inputs(config);
  inputs.insert(labels.begin(), labels.end());
  Lines lines;
  for (const auto& [name, tensor] : run_forward(*model, inputs, false)) {
    lines.push_back(name + " " + name_of(tensor.dtype()) + " " + tensor.shape().to_string());
  }
  return lines;
}

TEST(Forward, ReturnsWhatTheHeadHas) {
  EXPECT_EQ(signature(plain, DType::f32, {}), Lines{"last_hidden_state f32 [2, 4, 6]"});
  EXPECT_EQ(signature(mlm, DType::f32, {{"labels", ones({2, 4})}}),
            (Lines{"last_hidden_state f32 [2, 4, 6]", "logits f32 [2, 4, 9]", "loss f32 [1]"}));
  EXPECT_EQ(signature(classes, DType::f32, {}),
            (Lines{"last_hidden_state f32 [2, 4, 6]", "logits f32 [2, 2]"}));
  EXPECT_EQ(signature(regression, DType::f32, {{"labels", random_normal({2}, 3)}}),
            (Lines{"last_hidden_state f32 [2, 4, 6]", "logits f32 [2, 1]", "loss f32 [1]"}));
  EXPECT_EQ(signature(questions, DType::f32,
                      {{"start_positions", ones({2})}, {"end_positions", ones({2})}}),
            (Lines{"last_hidden_state f32 [2, 4, 6]", "start_logits f32 [2, 4]",
                   "end_logits f32 [2, 4]", "loss f32 [1]"}));
  EXPECT_EQ(signature(make_sequence_block, DType::f32, {}),
            (Lines{"last_hidden_state f32 [2, 4, 6]", "output f32 [2, 6]"}));
}

TEST(Forward, OfChoicesMergesThemIntoRows) {
  EXPECT_EQ(signature(choice, DType::f32, {{"labels", ones({2})}}),
            (Lines{"last_hidden_state f32 [6, 4, 6]", "logits f32 [2, 3]", "loss f32 [1]"}));
}

TEST(Forward, ReturnsF64OfF64AndF32OfBf16) {
  EXPECT_EQ(signature(plain, DType::f64, {}), Lines{"last_hidden_state f64 [2, 4, 6]"});
  EXPECT_EQ(signature(plain, DType::bf16, {}), Lines{"last_hidden_state f32 [2, 4, 6]"});
}

TEST(Forward, TakesI32AsI64) {
  ModelConfig config = tiny_config();
  const auto model = make_model(config, DType::f64);
  const auto wide = run_forward(*model, {{"input_ids", int_tensor({2, 3, 8}, {1, 3})}}, false);
  const auto narrow = run_forward(
      *model, {{"input_ids", Tensor::from(std::vector<std::int32_t>{2, 3, 8}, {1, 3})}}, false);
  EXPECT_EQ(wide[0].tensor.to_doubles(), narrow[0].tensor.to_doubles());
}

TEST(Forward, ReturnsAGradientOfEveryParameter) {
  ModelConfig config = tiny_config();
  mlm(config);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto model = make_model(config, dtype);
    NamedTensors inputs = valid_inputs(config);
    inputs["labels"] = int_tensor({1, -100, 2, 3, -100, 4, 5, 6}, {2, 4});
    const auto results = by_name(run_forward(*model, inputs, true));
    for (const Parameter& parameter : model->parameters().parameters()) {
      const auto found = results.find("grad." + parameter.name());
      ASSERT_NE(found, results.end()) << parameter.name();
      EXPECT_EQ(found->second.shape(), parameter.shape());
      EXPECT_EQ(found->second.dtype(), accumulate_dtype(dtype));
    }
  }
}

/// The loss and the gradients of a row of three tokens, and of two at padding behind them.
void expect_no_part_of_padding(const ModelConfig& config, const NamedTensors& alone,
                               const NamedTensors& padded) {
  const auto model = make_model(config, DType::f64);
  NamedTensors row = alone, longer = padded;
  row["input_ids"] = int_tensor({2, 3, 4}, {1, 3});
  longer["input_ids"] = int_tensor({2, 3, 4, 7, 8}, {1, 5});
  longer["attention_mask"] = int_tensor({1, 1, 1, 0, 0}, {1, 5});
  const auto expected = by_name(run_forward(*model, row, true));
  for (const auto& [name, value] : by_name(run_forward(*model, longer, true))) {
    if (name != "loss" && !name.starts_with("grad.")) continue;
    EXPECT_LE(max_difference(value, expected.at(name)), 1e-12) << name;
  }
}

TEST(Forward, PaddingHasNoPartInALoss) {
  for (const Positions positions : {Positions::absolute, Positions::rope}) {
    ModelConfig config = tiny_config();
    config.positions = positions;
    if (positions == Positions::rope) config.attention.conv_kernel_size.reset();
    config.hidden_size = 8;
    config.head = Head::replaced_tokens;
    expect_no_part_of_padding(config, {{"labels", int_tensor({0, 1, 0}, {1, 3})}},
                              {{"labels", int_tensor({0, 1, 0, 1, 1}, {1, 5})}});
    questions(config);
    const NamedTensors ends = {{"start_positions", int_tensor({1}, {1})},
                               {"end_positions", int_tensor({2}, {1})}};
    expect_no_part_of_padding(config, ends, ends);
    expect_no_part_of_padding(
        config,
        {{"start_positions", int_tensor({1}, {1})}, {"end_positions", int_tensor({9}, {1})}},
        {{"start_positions", int_tensor({1}, {1})}, {"end_positions", int_tensor({4}, {1})}});
  }
}

TEST(Forward, WithoutAPaddingTokenEveryRowIsTrained) {
  ModelConfig config = tiny_config();
  tokens(config);
  for (const std::optional<std::int64_t> padding : {std::optional<std::int64_t>(0), {}}) {
    config.pad_token_id = padding;
    const auto model = make_model(config, DType::f64);
    NamedTensors inputs = valid_inputs(config);
    inputs["labels"] = ones({2, 4});
    inputs["attention_mask"] = int_tensor({1, 1, 1, 0, 1, 1, 1, 1}, {2, 4});
    const auto results = by_name(run_forward(*model, inputs, true));
    const Tensor words = results.at("grad.nystromformer.embeddings.word_embeddings.weight");
    EXPECT_EQ(largest(words.slice(0, 0, 1).contiguous()) > 0, !padding);
  }
}

}  // namespace
}  // namespace nystrom::testing
