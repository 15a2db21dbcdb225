// A wrong tokenizer.json, vocab.txt or merges.txt gives its exact message.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "tests/support/named.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

/// A valid tokenizer.json, which each case damages.
Json sound() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "[CLS]", "special": true},
                     {"id": 4, "content": "[SEP]", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [3], "tokens": ["[CLS]"]}}},
    "decoder": {"type": "WordPiece"},
    "model": {"type": "WordPiece", "unk_token": "[UNK]",
      "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}})");
}

std::string error_of(const std::string& text) {
  return input_error([&] { tokenizer_of_json(text, "t.json"); });
}

struct Case : testing::Named {
  const char* place;    // JSON pointer
  const char* content;  // JSON to insert there; null: remove
  const char* message;  // after "t.json: "
};

class WrongTokenizerJson : public ::testing::TestWithParam<Case> {};

TEST_P(WrongTokenizerJson, Message) {
  Json json = sound();
  const Json::json_pointer place(GetParam().place);
  if (GetParam().content == nullptr)
    json[place.parent_pointer()].erase(place.back());
  else
    json[place] = Json::parse(GetParam().content);
  EXPECT_EQ(error_of(json.dump()), std::string("t.json: ") + GetParam().message);
}

#define BPE R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": )"

const Case cases[] = {
    {"list", "", "[]", "got a list, expected an object"},
    {"no_model", "/model", nullptr, "'model' is missing"},
    {"model_a_text", "/model", "\"BPE\"", "model: got \"BPE\", expected an object"},
    {"other_model", "/model/type", "\"WordLevel\"",
     "model: models of type 'WordLevel' are not supported; known are BPE, Unigram and WordPiece"},
    {"no_vocabulary", "/model/vocab", nullptr, "model: 'vocab' is missing"},
    {"empty_vocabulary", "/model/vocab", "{}", "model.vocab: the vocabulary is empty"},
    {"vocabulary_a_list", "/model/vocab", "[]",
     "model.vocab: expected an object from pieces to ids"},
    {"negative_id", "/model/vocab/a", "-1", "model.vocab: the id of 'a' is -1, expected 0 to 1005"},
    {"huge_id", "/model/vocab/a", "4294967296",
     "model.vocab: the id of 'a' is 4294967296, expected 0 to 1005"},
    {"astronomical_id", "/model/vocab/a", "1e300",
     "model.vocab: the id of 'a' is 1e+300, expected 0 to 1005"},
    {"id_a_text", "/model/vocab/a", "\"1\"",
     "model.vocab: the id of 'a' is \"1\", expected 0 to 1005"},
    {"same_id", "/model/vocab/a", "2", "model.vocab: id 2 belongs to '##b' and to 'a'"},
    {"gap_that_a_new_token_fills", "/model/vocab/a", "3",
     "added_tokens[0]: '[CLS]' has id 3, which is 'a' in the vocabulary"},
    {"unknown_a_number", "/model/unk_token", "0", "model.unk_token: got 0, expected a text"},
    {"characters_per_word", "/model/max_input_chars_per_word", "0",
     "model.max_input_chars_per_word: got 0, expected a whole number from 1 to 2147483647"},
    {"added_no_list", "/added_tokens", "{}", "added_tokens: got an object, expected a list"},
    {"added_no_content", "/added_tokens/0/content", nullptr,
     "added_tokens[0]: 'content' is missing"},
    {"added_empty", "/added_tokens/0/content", "\"\"", "added_tokens[0]: 'content' is empty"},
    {"added_no_id", "/added_tokens/1/id", nullptr, "added_tokens[1]: 'id' is missing"},
    {"added_id_taken", "/added_tokens/1/id", "0",
     "added_tokens[1]: '[SEP]' has id 0, which is '[UNK]' in the vocabulary"},
    {"added_id_twice", "/added_tokens/1/id", "3",
     "added_tokens[1]: '[SEP]' has id 3, which is '[CLS]' in the vocabulary"},
    {"added_id_differs", "/added_tokens/1/content", "\"a\"",
     "added_tokens[1]: 'a' has id 4, but the vocabulary says 1"},
    {"added_id_far", "/added_tokens/1/id", "1000000",
     "added_tokens[1]: '[SEP]' has id 1000000, expected 4: new tokens are numbered from the number "
     "of pieces on, in order"},
    {"added_flag", "/added_tokens/1/special", "1",
     "added_tokens[1].special: got 1, expected true or false"},
    {"normalizer_type", "/normalizer/normalizers/1/type", "\"Upper\"",
     "normalizer.normalizers[1]: normalizers of type 'Upper' are not supported; known are "
     "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
     "Replace, Sequence, Strip and StripAccents"},
    {"normalizer_no_type", "/normalizer", "{}", "normalizer: 'type' is missing"},
    {"normalizer_flag", "/normalizer", R"({"type": "BertNormalizer", "lowercase": "yes"})",
     "normalizer.lowercase: got \"yes\", expected true or false"},
    {"replace_no_pattern", "/normalizer", R"({"type": "Replace", "content": ""})",
     "normalizer: 'pattern' is missing"},
    {"replace_other_pattern", "/normalizer",
     R"({"type": "Replace", "pattern": {"Glob": "*"}, "content": ""})",
     "normalizer.pattern: 'Regex' is missing"},
    {"replace_regex", "/normalizer",
     R"j({"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""})j",
     "normalizer.pattern.Regex: the regular expression '(a' is invalid: end pattern with unmatched "
     "parenthesis"},
    {"charsmap_base64", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "*AAA"})",
     "normalizer.precompiled_charsmap: character 0 is not of base64"},
    {"charsmap_length", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAA"})",
     "normalizer.precompiled_charsmap: base64 of 3 characters; expected a multiple of 4"},
    {"charsmap_short", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})",
     "normalizer.precompiled_charsmap: the charsmap has 3 bytes, too few for its own header"},
    {"pre_tokenizer_type", "/pre_tokenizer/type", "\"UnicodeScripts\"",
     "pre_tokenizer: pre-tokenizers of type 'UnicodeScripts' are not supported; known are "
     "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Sequence, "
     "Split, Whitespace and WhitespaceSplit"},
    {"split_behavior", "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Kept"})",
     "pre_tokenizer.behavior: got 'Kept', expected Removed, Isolated, MergedWithPrevious, "
     "MergedWithNext or Contiguous"},
    {"metaspace_mark", "/pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})",
     "pre_tokenizer.replacement: expected one character"},
    {"metaspace_scheme", "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     "pre_tokenizer.prepend_scheme: got 'last', expected always, first or never"},
    {"metaspace_contradiction", "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false,
         "prepend_scheme": "first"})",
     "pre_tokenizer.prepend_scheme: got 'first' beside add_prefix_space: false; expected never"},
    {"delimiter", "/pre_tokenizer", R"({"type": "CharDelimiterSplit", "delimiter": ""})",
     "pre_tokenizer.delimiter: expected one character"},
    {"post_processor_type", "/post_processor/type", "\"Own\"",
     "post_processor: post-processors of type 'Own' are not supported; known are BertProcessing, "
     "ByteLevel, RobertaProcessing, Sequence and TemplateProcessing"},
    {"template_token", "/post_processor/single/0/SpecialToken/id", "\"[X]\"",
     "post_processor.single[0].SpecialToken.id: '[X]' is not among special_tokens"},
    {"template_text", "/post_processor/pair/1/Sequence/id", "\"C\"",
     "post_processor.pair[1].Sequence.id: got 'C', expected A or B"},
    {"template_without_text", "/post_processor/single", "[]",
     "post_processor.single: expected each text once"},
    {"template_with_b", "/post_processor/single/0", R"({"Sequence": {"id": "B", "type_id": 0}})",
     "post_processor.single: holds B, of which there is none"},
    {"template_id", "/post_processor/special_tokens/[CLS]/ids/0", "99",
     "post_processor.special_tokens.[CLS].ids[0]: got 99, expected a whole number from 0 to 4"},
    {"template_type", "/post_processor/single/1/Sequence/type_id", "-1",
     "post_processor.single[1].Sequence.type_id: got -1, expected a whole number from 0 to 1000"},
    {"two_templates", "/post_processor",
     R"({"type": "Sequence", "processors": [
      {"type": "BertProcessing", "cls": ["[CLS]", 3], "sep": ["[SEP]", 4]},
      {"type": "BertProcessing", "cls": ["[CLS]", 3], "sep": ["[SEP]", 4]}]})",
     "post_processor.processors[1]: a second template in a sequence of post-processors is not "
     "supported"},
    {"two_trims", "/post_processor",
     R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "ByteLevel"}]})",
     "post_processor.processors[1]: a second step that trims offsets in a sequence of "
     "post-processors is not supported"},
    {"bert_pair", "/post_processor",
     R"({"type": "BertProcessing", "cls": [3], "sep": ["[SEP]", 4]})",
     "post_processor.cls: expected a token and its id"},
    {"decoder_type", "/decoder/type", "\"CTC\"",
     "decoder: decoders of type 'CTC' are not supported; known are BPEDecoder, ByteFallback, "
     "ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip and WordPiece"},
    {"metaspace_decoder", "/decoder",
     R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false,
         "prepend_scheme": "always"})",
     "decoder.prepend_scheme: got 'always' beside add_prefix_space: false; expected never"},
    {"strip_count", "/decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
     "decoder.start: got -1, expected a whole number from 0 to 1000000"},
    {"no_merges", "/model", R"({"type": "BPE", "vocab": {"a": 0}})", "model: 'merges' is missing"},
    {"merge_of_three", "/model", BPE "[\"a b c\"]}",
     "model.merges: merge 0 is \"a b c\", expected two pieces"},
    {"merge_of_one", "/model", BPE "[\"a b\", [\"a\"]]}",
     "model.merges: merge 1 is [\"a\"], expected two pieces"},
    {"merge_of_numbers", "/model", BPE "[7]}", "model.merges: merge 0 is 7, expected two pieces"},
    {"merge_unknown_part", "/model", BPE "[[\"a\", \"c\"]]}",
     "model: merge 0 ('a' and 'c'): 'c' is no piece of the vocabulary"},
    {"merge_unknown_result", "/model", BPE "[[\"b\", \"a\"]]}",
     "model: merge 0 ('b' and 'a'): 'ba' is no piece of the vocabulary"},
    {"dropout", "/model", BPE "[], \"dropout\": 0.1}",
     "model.dropout: dropout of merges is not supported"},
    {"dropout_type", "/model", BPE "[], \"dropout\": true}",
     "model.dropout: got true, expected a number"},
    {"unigram_object", "/model", R"({"type": "Unigram", "vocab": {}})",
     "model.vocab: expected a list of pieces with scores"},
    {"unigram_empty", "/model", R"({"type": "Unigram", "vocab": []})",
     "model.vocab: the vocabulary is empty"},
    {"unigram_no_score", "/model", R"({"type": "Unigram", "vocab": [["a", 0], ["b"]]})",
     "model.vocab: element 1 is no list of a piece and its score"},
    {"unigram_twice", "/model", R"({"type": "Unigram", "vocab": [["a", 0], ["a", -1]]})",
     "model.vocab: 'a' stands in it twice"},
    {"unigram_unknown", "/model",
     R"({"type": "Unigram", "unk_id": 2, "vocab": [["a", 0], ["b", -1]]})",
     "model.unk_id: got 2, expected a whole number from 0 to 1"},
};

INSTANTIATE_TEST_SUITE_P(Table, WrongTokenizerJson, ::testing::ValuesIn(cases), testing::case_name);

TEST(TokenizerJsonFile, IsSound) { EXPECT_EQ(error_of(sound().dump()), "no error"); }

TEST(TokenizerJsonFile, WrongText) {
  EXPECT_EQ(error_of(""),
            "t.json:1:1: syntax error while parsing value - unexpected end of input; expected '[', "
            "'{', or a literal");
  const std::string text = sound().dump();
  for (const std::size_t size : {text.size() / 3, text.size() / 2, text.size() - 1})
    EXPECT_EQ(error_of(text.substr(0, size)).substr(0, 9), "t.json:1:") << size;
}

/// Long pieces take many times their bytes of memory.
TEST(TokenizerJsonFile, LongPieces) {
  const std::string longest(max_piece_bytes, 'a'),
      message = "has 1025 bytes, expected at most 1024";
  Json json = sound();
  json["model"]["vocab"][longest + "b"] = 5;
  expect_says(error_of(json.dump()), "t.json: model.vocab: the piece 'aaa");
  expect_says(error_of(json.dump()), message);
  json["model"] = {{"type", "Unigram"}, {"vocab", Json::array({Json::array({longest, -1})})}};
  json["added_tokens"] = Json::array();
  json["post_processor"] = nullptr;
  EXPECT_EQ(error_of(json.dump()), "no error");
  json["added_tokens"].push_back({{"id", 1}, {"content", longest + "b"}});
  expect_says(error_of(json.dump()), message);
  json["model"]["vocab"][0][0] = longest + "b";
  expect_says(error_of(json.dump()), "t.json: model.vocab: the piece");
}

/// Hugging Face's library passes over it too.
TEST(MergesOfBpe, MayBeginWithTheVersionOfAMergesFile) {
  Json json = sound();
  json["model"] = Json::parse(BPE R"(["#version: 0.2", "a b"]})");
  EXPECT_EQ(tokenizer_of_json(json.dump())->encode("ab"), (std::vector<std::int32_t>{2}));
}

TEST(UnigramWithoutUnknown, TextThatNeedsIt) {
  Json json = sound();
  json["model"] = Json::parse(R"({"type": "Unigram", "vocab": [["a", 0], ["b", -1], ["c", -1]]})");
  const auto tokenizer = tokenizer_of_json(json.dump());
  EXPECT_EQ(tokenizer->encode("ab"), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(input_error([&] { tokenizer->encode("az"); }),
            "the text holds what is no piece of the tokenizer, which has no unknown token");
}

/// The time grows with the length of a word, not with its square.
TEST(UnigramWithBytes, TakesLongWords) {
  Json pieces = Json::parse(R"([["<unk>", 0], ["a", -1]])");
  for (int byte = 0; byte < 256; ++byte)
    pieces.push_back(Json::array({fmt::format("<0x{:02X}>", byte), -9}));
  Json json = sound();
  json["pre_tokenizer"] = json["normalizer"] = nullptr;
  json["added_tokens"] = Json::array();
  json["post_processor"] = nullptr;
  json["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", pieces}};
  constexpr std::size_t count = 100'000;
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "\u00e9a";
  const std::vector<std::int32_t> ids = tokenizer_of_json(json.dump())->encode(text);
  ASSERT_EQ(ids.size(), 3 * count);
  EXPECT_EQ((std::vector(ids.end() - 3, ids.end())), (std::vector<std::int32_t>{0xC5, 0xAB, 1}));
}

TEST(GrowingText, EndsInAnError) {
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  Json json = sound();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(60, twice)}};
  const auto normalizing = tokenizer_of_json(json.dump());
  EXPECT_EQ(
      input_error([&] { normalizing->encode("a"); }),
      "the tokenizer's normalizer or pre-tokenizer makes the text more than 64 times as long");
  json = sound();
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json(60, level)}};
  const auto splitting = tokenizer_of_json(json.dump());
  EXPECT_EQ(
      input_error([&] { splitting->encode("\u00e9"); }),
      "the tokenizer's normalizer or pre-tokenizer makes the text more than 64 times as long");
  json = sound();
  json["decoder"] = {{"type", "Sequence"}, {"decoders", Json(60, twice)}};
  const auto decoding = tokenizer_of_json(json.dump());
  const std::int32_t a = 1;
  constexpr const char* message =
      "the tokenizer's decoder makes a text of more than 16777216 bytes";
  EXPECT_EQ(input_error([&] { decoding->decode(std::span(&a, 1)); }), message);
  json["decoder"] = twice;
  json["decoder"]["content"] = std::string(std::size_t{1} << 20, 'a');
  const auto together = tokenizer_of_json(json.dump());
  EXPECT_EQ(input_error([&] { together->decode(std::vector<std::int32_t>(17, a)); }), message);
}

TEST(BertVocabulary, Wrong) {
  const auto error = [](const std::string& text) {
    TokenizerSettings settings{.its_class = find_tokenizer_class("BertTokenizer")};
    return input_error([&] { bert_tokenizer_json(text, "vocab.txt", settings); });
  };
  EXPECT_EQ(error("[UNK]\n[CLS]\n[SEP]\n"), "no error");
  EXPECT_EQ(error("[UNK]\r\n[CLS]\r\n[SEP]\r\n"), "no error");
  EXPECT_EQ(error(""), "vocab.txt: the vocabulary is empty");
  EXPECT_EQ(error("a\n\nb\n"), "vocab.txt:2: an empty line; expected a piece");
  EXPECT_EQ(error("a\nb\na\n"), "vocab.txt:3: 'a' stands in line 1 too");
  EXPECT_EQ(error("[UNK]\na\rb\n"),
            "vocab.txt:2: a carriage return within a line, where Python begins another; remove it");
  EXPECT_EQ(error("[UNK]\n[SEP]\n"), "vocab.txt: the vocabulary has no piece '[CLS]'");
  EXPECT_EQ(error("[UNK]\n\xFF\n"), "vocab.txt: not valid UTF-8 at byte 6");
}

TEST(Gpt2Vocabulary, Wrong) {
  const auto error = [](const std::string& vocabulary, const std::string& merges) {
    return input_error([&] {
      tokenizer_of_json(
          gpt2_tokenizer_json(Json::parse(vocabulary), "vocab.json", merges, "merges.txt", {}),
          "merges.txt");
    });
  };
  const std::string vocabulary = R"({"a": 0, "b": 1, "ab": 2})";
  EXPECT_EQ(error(vocabulary, "#version: 0.2\na b\n"), "no error");
  EXPECT_EQ(error("[]", ""), "vocab.json: expected an object from pieces to ids");
  EXPECT_EQ(error(vocabulary, "#version: 0.2\r\na b\r\n"), "no error");
  EXPECT_EQ(error(vocabulary, "#version: 0.2\na b\nab\n"),
            "merges.txt:3: 'ab' is no pair of pieces");
  EXPECT_EQ(error(vocabulary, "#version: 0.2\n\na b\n"), "merges.txt:2: '' is no pair of pieces");
  EXPECT_EQ(error(vocabulary, "#version: 0.2\na b"),
            "merges.txt: the last line has no line feed, and transformers leaves it out; add one");
  EXPECT_EQ(error(vocabulary, "a b\n"),
            "merges.txt:1: expected '#version: 0.2' before the merges; transformers leaves out the "
            "first line, so put that there");
  EXPECT_EQ(error(vocabulary, "#version: 0.2\na c\n"),
            "merges.txt: model: merge 0 ('a' and 'c'): 'c' is no piece of the vocabulary");
  EXPECT_EQ(error(vocabulary, "#version: 0.2\na b\na b\n"),
            "merges.txt:3: 'a b' is in line 2 too; transformers 4 takes the first one's rank, and "
            "5 the last one's; remove one");
}

}  // namespace
}  // namespace nystrom
