// nystrom predict: its tokens and scores agree with the logits, its fields are those of Hugging
// Face, and its errors are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "tests/support/named.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/export/forward.h"
#include "train/objectives/fill_mask.h"

namespace nystrom::testing {
namespace {

using Masks = std::vector<std::vector<MaskFill>>;

/// The probabilities at one position of a row padded to `length`, computed from all logits.
std::vector<double> probabilities(const Model& model, std::vector<std::int64_t> ids,
                                  std::int64_t length, std::size_t position) {
  std::vector<std::int64_t> valid(ids.size(), 1);
  ids.resize(static_cast<std::size_t>(length), 0);
  valid.resize(ids.size(), 0);
  const Tensor input_ids = Tensor::from(ids, {1, length}),
               attention_mask = Tensor::from(valid, {1, length});
  std::vector<double> result;
  double sum = 0;
  for (const NamedTensor& output :
       run_forward(model, {{"input_ids", input_ids}, {"attention_mask", attention_mask}}, false)) {
    if (output.name != "logits") continue;
    const auto logits = output.tensor.to_doubles();
    const auto classes = static_cast<std::size_t>(output.tensor.dim(2));
    for (std::size_t c = 0; c < classes; ++c)
      sum += result.emplace_back(std::exp(logits[position * classes + c]));
  }
  for (double& p : result) p /= sum;
  return result;
}

/// The ids of "[CLS] text [SEP]".
std::vector<std::int64_t> ids_of_text(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.wrap(tokenizer.encode(text, SpecialNames::tokens)).ids;
  return {ids.begin(), ids.end()};
}

void expect_fills(const std::vector<MaskFill>& fills, const std::vector<double>& expected,
                  std::size_t count) {
  ASSERT_EQ(fills.size(), count);
  std::vector<double> sorted = expected;
  std::sort(sorted.rbegin(), sorted.rend());
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(fills[i].score, sorted[i], 1e-6) << i;
    EXPECT_NEAR(fills[i].score, expected[static_cast<std::size_t>(fills[i].token)], 1e-6) << i;
  }
}

class FillMask : public ProgramTest {
 protected:
  const TinyCheckpoint tiny_{folder_ / "model"};
};

TEST_F(FillMask, ScoresAreTheProbabilitiesAtTheMask) {
  const std::string text = "the sea was [MASK] and old";
  const auto ids = ids_of_text(tiny_.tokenizer, text);
  const auto place =
      std::find(ids.begin(), ids.end(), tiny_.tokenizer.special().mask) - ids.begin();
  const Masks masks = fill_masks(*tiny_.model, tiny_.tokenizer, text, 7);
  ASSERT_EQ(masks.size(), 1u);
  expect_fills(masks[0],
               probabilities(*tiny_.model, ids, static_cast<std::int64_t>(ids.size()),
                             static_cast<std::size_t>(place)),
               7);
}

TEST_F(FillMask, RowsArePaddedForAModelOfOneLength) {
  ModelConfig config = tiny_masked_lm();
  config.attention.semantics = Semantics::transformers;
  const TinyCheckpoint tiny(folder_ / "other", config);
  const auto ids = ids_of_text(tiny.tokenizer, "[MASK] sea");
  expect_fills(fill_masks(*tiny.model, tiny.tokenizer, "[MASK] sea", 36)[0],
               probabilities(*tiny.model, ids, 24, 1), 36);
}

TEST_F(FillMask, TheExactCaseOfTransformersIsNotPadded) {
  ModelConfig config = tiny_masked_lm();
  config.attention.semantics = Semantics::transformers;
  config.segment_means_seq_len = config.attention.num_landmarks;
  const TinyCheckpoint tiny(folder_ / "other", config);
  const auto ids = ids_of_text(tiny.tokenizer, "[MASK] sea");
  expect_fills(fill_masks(*tiny.model, tiny.tokenizer, "[MASK] sea", 36)[0],
               probabilities(*tiny.model, ids, static_cast<std::int64_t>(ids.size()), 1), 36);
}

TEST_F(FillMask, OneMaskLeavesSpecialTokensOutOfTheSequence) {
  const Masks masks = fill_masks(*tiny_.model, tiny_.tokenizer, "the [MASK] sea", 36);
  for (const MaskFill& fill : masks[0]) {
    const bool is_special = tiny_.tokenizer.is_special(fill.token);
    const std::string piece = tiny_.tokenizer.piece(fill.token);
    const bool begins = piece.starts_with("\xE2\x96\x81");
    const std::string word = begins ? piece.substr(3) : piece;
    EXPECT_EQ(fill.token_str, word);
    EXPECT_EQ(fill.sequence,
              is_special ? "the sea" : "the" + std::string(begins ? " " : "") + word + " sea")
        << fill.token;
  }
}

TEST_F(FillMask, ATemplateWithOtherTokenTypesIsRefused) {
  auto json = nlohmann::json::parse(tiny_.tokenizer.files(24)[0].content);
  json["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 1}},
                 {"Sequence": {"id": "A", "type_id": 1}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}},
               {"Sequence": {"id": "B", "type_id": 1}}]})");
  for (const auto& [name, id] : {std::pair("[CLS]", tiny_.tokenizer.special().cls),
                                 std::pair("[SEP]", tiny_.tokenizer.special().sep)})
    json["post_processor"]["special_tokens"][name] = {
        {"id", name}, {"ids", std::vector{id}}, {"tokens", std::vector{std::string(name)}}};
  const auto tokenizer = tokenizer_of_json(json.dump());
  EXPECT_EQ(input_error([&] { masked_text(tiny_.model->config(), *tokenizer, "the [MASK]"); }),
            "the tokenizer's template gives a text other token types than 0, and masks are filled "
            "in with 0; correct the template in tokenizer.json");
}

TEST_F(FillMask, SeveralMasksKeepTheOthersAndSpecialTokensButNoPadding) {
  const Masks masks = fill_masks(*tiny_.model, tiny_.tokenizer, "[MASK] the [MASK]", 36);
  ASSERT_EQ(masks.size(), 2u);
  const std::int32_t sea = tiny_.tokenizer.find("\xE2\x96\x81sea").value(),
                     pad = tiny_.tokenizer.special().pad;
  const auto sequence = [&](std::size_t mask, std::int32_t token) {
    return std::find_if(masks[mask].begin(), masks[mask].end(),
                        [&](const MaskFill& fill) { return fill.token == token; })
        ->sequence;
  };
  EXPECT_EQ(sequence(0, sea), "[CLS] sea the[MASK][SEP]");
  EXPECT_EQ(sequence(1, sea), "[CLS][MASK] the sea[SEP]");
  EXPECT_EQ(sequence(1, pad), "[CLS][MASK] the[SEP]");
}

TEST_F(FillMask, JsonIsWhatPythonWrites) {
  const MaskFill plain{0.25, 7, "sea", "the sea"},
      odd{1e-05, 8, "\"\xC3\xA9\n", "\xF0\x9F\x99\x82"};
  EXPECT_EQ(
      fill_mask_json({{plain, odd}}),
      R"([{"score": 0.25, "token": 7, "token_str": "sea", "sequence": "the sea"}, )"
      R"({"score": 1e-05, "token": 8, "token_str": "\"\u00e9\n", "sequence": "\ud83d\ude42"}])");
  EXPECT_EQ(fill_mask_json({{plain}, {plain}}),
            R"([[{"score": 0.25, "token": 7, "token_str": "sea", "sequence": "the sea"}], )"
            R"([{"score": 0.25, "token": 7, "token_str": "sea", "sequence": "the sea"}]])");
}

using Predict = FillMask;

/// A config.json of Hugging Face whose landmarks do not divide its length.
TEST_F(Predict, OverridesMakeAModelOfAFolderThatCannotBeBuiltAsItIs) {
  nlohmann::json config = read_json_file(folder_ / "model" / "config.json");
  const int landmarks = config.at("num_landmarks");
  config["segment_means_seq_len"] = landmarks * 5 + 1;
  config["model_type"] = "nystromformer";
  config.erase("nystrom");
  write_bytes(folder_ / "model" / "config.json", config.dump());
  refusal("predict model 'the [MASK]'");
  EXPECT_TRUE(last_.err.ends_with(
      "(Hugging Face refuses it too); change it or set attention.semantics to nystrom\n"))
      << last_.err;
  const std::string ours = " --set model.attention.semantics=nystrom";
  EXPECT_EQ(run("predict model 'the [MASK]' --json --quiet" + ours).out,
            fill_mask_json(fill_masks(*tiny_.model, tiny_.tokenizer, "the [MASK]", 5)) + "\n");
  for (const char* command :
       {"info model", "export model exact --attention softmax", "extend model longer --length 64"})
    run(command + ours);
  // What an option does not mend is refused.
  expect_says(refusal("info model --set model.hidden_dropout_prob=0"),
              "num_landmarks 3 does not divide segment_means_seq_len 16");
}

TEST_F(Predict, ControlCharactersOfAConfigurationAreShownAsEscapes) {
  nlohmann::json config = read_json_file(folder_ / "model" / "config.json");
  config["nystrom"]["embedding"]["query_prompt"] = "c\xc2\x9b[31m";
  write_bytes(folder_ / "model" / "config.json", config.dump());
  expect_says(run("info model").out, R"("query_prompt":"c\xc2\x9b[31m")");
}

TEST_F(Predict, PrintsOneJsonLineATextAlsoOutOfFiles) {
  write_bytes(folder_ / "texts.txt", "old [MASK]\n[MASK] men [MASK]\n");
  EXPECT_EQ(run("predict model '[MASK]' texts.txt 'a, [MASK]' --json --top-k 2 --batch 1").err, "");
  std::string expected;
  for (const char* text : {"[MASK]", "old [MASK]", "[MASK] men [MASK]", "a, [MASK]"}) {
    expected += fill_mask_json(fill_masks(*tiny_.model, tiny_.tokenizer, text, 2)) + "\n";
  }
  EXPECT_EQ(last_.out, expected);
}

/// Under semantics transformers the texts of a batch share a matrix.
TEST_F(FillMask, ABadLineChangesNoOtherOne) {
  ModelConfig config = tiny_masked_lm();
  config.attention.semantics = Semantics::transformers;
  const TinyCheckpoint tiny(folder_ / "other", config);
  write_bytes(folder_ / "good.txt", "[MASK]\nold [MASK]\n[MASK] men [MASK]\n");
  write_bytes(folder_ / "bad.txt", "[MASK]\nold [MASK]\nthe sea\n[MASK] men [MASK]\n");
  const auto lines = [&](const std::string& arguments) {
    return run_program(folder_, "predict other --json --top-k 2 " + arguments).out;
  };
  std::string with_bad = lines("bad.txt --skip-bad");
  const std::size_t begin = with_bad.find("{\"error\"");
  ASSERT_NE(begin, with_bad.npos) << with_bad;
  with_bad.erase(begin, with_bad.find('\n', begin) + 1 - begin);
  EXPECT_EQ(with_bad, lines("good.txt"));
  EXPECT_NE(with_bad, lines("good.txt --batch 1")) << "or the test cannot fail";
}

TEST_F(FillMask, ABatchOfUnequalTextsGivesWhatEachGivesAlone) {
  std::vector<MaskedText> texts;
  const char* const words[] = {"[MASK] men sang [MASK] old men", "[MASK]", "a, [MASK]",
                               "old [MASK]", "the [MASK] sea"};
  for (const char* text : words)
    texts.push_back(masked_text(tiny_.model->config(), tiny_.tokenizer, text));
  const auto together = fill_masks(*tiny_.model, tiny_.tokenizer, texts, 3, 4);
  ASSERT_EQ(together.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const MaskFills alone = fill_masks(*tiny_.model, tiny_.tokenizer, words[i], 3);
    ASSERT_EQ(together[i].size(), alone.size()) << words[i];
    for (std::size_t mask = 0; mask < alone.size(); ++mask) {
      for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(together[i][mask][rank].sequence, alone[mask][rank].sequence);
        EXPECT_NEAR(together[i][mask][rank].score, alone[mask][rank].score, 1e-6);
      }
    }
  }
}

TEST_F(Predict, ABadTextLeavesThePredictionsBeforeIt) {
  write_bytes(folder_ / "texts.txt", "old [MASK]\nno mask\nmen [MASK]\n");
  EXPECT_EQ(refusal("predict model texts.txt --json --top-k 1"),
            "nystrom: texts.txt:2: the text has no [MASK]; write it where a word is to be filled "
            "in\n");
  EXPECT_EQ(std::ranges::count(last_.out, '\n'), 1);
}

TEST_F(Predict, ComputesInBf16) {
  run("predict model 'the [MASK]' --json --top-k 1 --dtype bf16");
  const double score = nlohmann::json::parse(last_.out)[0]["score"];
  const double exact = fill_masks(*tiny_.model, tiny_.tokenizer, "the [MASK]", 1)[0][0].score;
  EXPECT_NEAR(score, exact, 0.02);
  EXPECT_NE(score, exact);
}

TEST_F(Predict, PrintsAlignedLinesForPeople) {
  run("predict model 'the\t[MASK] [MASK]' --top-k 5");
  const Masks masks = fill_masks(*tiny_.model, tiny_.tokenizer, "the\t[MASK] [MASK]", 5);
  std::string expected = "the\\x09[MASK] [MASK]\n";
  for (std::size_t mask = 0; mask < 2; ++mask) {
    expected += "mask " + std::to_string(mask + 1) + " of 2\n";
    std::size_t widest = 0;
    for (const MaskFill& fill : masks[mask]) widest = std::max(widest, fill.token_str.size());
    for (const MaskFill& fill : masks[mask]) {
      char score[16];
      std::snprintf(score, sizeof score, "%.4f", fill.score);
      expected += std::string("  ") + score + "  " + fill.token_str +
                  std::string(widest - fill.token_str.size(), ' ') + "  " + fill.sequence + "\n";
    }
  }
  EXPECT_EQ(last_.out, expected);
}

struct Case : Named {
  const char* arguments;
  const char* message;  // after "nystrom: "
};

const Case cases[] = {
    {"no_text", "model", "TEXT is required; see nystrom predict --help"},
    {"no_mask", "model 'the sea'",
     "'the sea': the text has no [MASK]; write it where a word is to be filled in"},
    {"empty", "model ' '",
     "' ': the text is empty; give a text with [MASK] where a word is to be filled in"},
    {"too_long", "model $(printf '[MASK]%.0s' $(seq 23))",
     "'[MASK][MASK][MASK][MASK][MASK][MASK][MASK][MASK][MASK][MASK]…': the text has 25 tokens, the "
     "special ones included, the model takes at most 24; shorten it"},
    {"not_utf8", "model \"$(printf 'a \\377 [MASK]')\"",
     "'a \\xff [MASK]': the text is not valid UTF-8 at byte 2"},
    {"more_than_there_are", "model --top-k 37 '[MASK]'",
     "--top-k 37: the model knows only 36 tokens"},
    {"none", "model --top-k 0 '[MASK]'",
     "--top-k: Value 0 not in range 1 to 16777216; see nystrom predict --help"},
    {"no_mask_in_a_file", "model no_mask.txt",
     "no_mask.txt:1: the text has no [MASK]; write it where a word is to be filled in"},
    {"file_not_utf8", "model binary.txt",
     "binary.txt:1: byte 2 is not UTF-8 (\\xff); if the file is Latin-1, convert it, as with iconv "
     "-f WINDOWS-1252 -t UTF-8; --skip-bad marks such a line and goes on"},
    {"file_of_nothing", "model empty.txt", "empty.txt: there is no example in it"},
    {"no_tokenizer", "bare '[MASK]'",
     "bare: has no tokenizer; bring its tokenizer.json, spiece.model, vocab.txt, or vocab.json "
     "with merges.txt"},
    {"other_tokenizer", "small '[MASK]'",
     "small: the tokenizer has 36 pieces, the model only 35 rows; they do not belong together"},
};

class PredictErrors : public FillMask, public ::testing::WithParamInterface<Case> {};

TEST_P(PredictErrors, SayWhatIsWrong) {
  ModelConfig small = tiny_masked_lm();
  small.vocab_size = 35;
  write_bytes(folder_ / "bare" / "config.json", hf_config_text(tiny_masked_lm()));
  write_bytes(folder_ / "small" / "config.json", hf_config_text(small));
  std::filesystem::copy(folder_ / "model" / "tokenizer.json", folder_ / "small" / "tokenizer.json");
  write_bytes(folder_ / "no_mask.txt", "the sea\n");
  write_bytes(folder_ / "binary.txt", "a\xff\n");
  write_bytes(folder_ / "empty.txt", "\n \n");
  expect_refused(std::string("predict ") + GetParam().arguments, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Arguments, PredictErrors, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace nystrom::testing
