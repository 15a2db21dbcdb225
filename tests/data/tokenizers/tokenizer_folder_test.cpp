// The tokenizer of a folder, and its properties of words and special tokens.
#include "data/tokenizers/tokenizer_folder.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "tests/support/errors.h"
#include "tests/support/fixtures.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const fs::path fixtures = testing::fixture_folder() / "tokenizers";

/// A folder of a tokenizer.
class OpenTokenizer : public FolderTest {
 protected:
  void copy(const fs::path& file) { fs::copy_file(fixtures / file, folder_ / file.filename()); }
  void describe(const nlohmann::json& json) { write("tokenizer.json", json.dump()); }
  void configure(const std::string& text) { write("tokenizer_config.json", text); }
  void use_class(const std::string& name) { configure(R"({"tokenizer_class": ")" + name + "\"}"); }
  void write(const char* file, const std::string& text) { write_bytes(folder_ / file, text); }
  std::unique_ptr<Tokenizer> open() const { return open_tokenizer(folder_.path()); }
  std::string error() const {
    return error_in_dir([this] { open(); });
  }
};

/// Whether the tokenizer is that of ALBERT's spiece.model.
bool is_alberts(const fs::path& place) { return open_tokenizer(place)->vocab_size() == 30000; }

TEST_F(OpenTokenizer, TheFilesOfAFolderDecide) {
  EXPECT_FALSE(has_tokenizer(folder_.path()));
  EXPECT_EQ(error(),
            "DIR: holds no tokenizer; expected tokenizer.json, spiece.model or another "
            "SentencePiece model, vocab.txt, or vocab.json with merges.txt");
  copy("small/byte_level/vocab.json");
  EXPECT_FALSE(has_tokenizer(folder_.path())) << "without merges.txt";
  copy("small/byte_level/merges.txt");
  EXPECT_EQ(open()->vocab_size(), 501);
  copy("small/wordpiece/vocab.txt");
  EXPECT_EQ(open()->vocab_size(), 400);
  copy("albert/spiece.model");
  EXPECT_TRUE(is_alberts(folder_.path()));
  use_class("AlbertTokenizer");
  EXPECT_TRUE(is_alberts(folder_.path()));
  use_class("T5Tokenizer");
  EXPECT_EQ(error(),
            "DIR/spiece.model: is read as that of AlbertTokenizer, PreTrainedTokenizer, not of "
            "T5Tokenizer; save it as tokenizer.json once: "
            "AutoTokenizer.from_pretrained(…).save_pretrained(…)");
  copy("small/unigram/tokenizer.json");
  EXPECT_FALSE(is_alberts(folder_.path()));
  use_class("PreTrainedTokenizerFast");
  EXPECT_FALSE(is_alberts(folder_.path()));
  EXPECT_TRUE(is_alberts(folder_ / "spiece.model")) << "a file is taken by its name";
  EXPECT_EQ(open_tokenizer(folder_ / "merges.txt")->vocab_size(), 501);
  EXPECT_EQ(error_in_dir([&] { open_tokenizer(folder_ / "tokenizer_config.json"); }),
            "DIR/tokenizer_config.json: is no file of a tokenizer by its name; expected a folder, "
            "or a tokenizer.json, vocab.txt, vocab.json or *.model");
  EXPECT_EQ(error_in_dir([&] { open_tokenizer(folder_ / "absent"); }),
            "DIR/absent: no such file or folder");
}

/// AutoTokenizer must find a class that takes tokenizer.json as it is, all special tokens, and the
/// inputs, whatever the source said.
TEST_F(OpenTokenizer, WritesWhatItIs) {
  for (const char* name : {"tokenizer.json", "vocab.txt"})
    fs::copy_file(fixtures / "small/wordpiece" / name, folder_ / name);
  configure(R"({"do_lower_case": false})");
  write("config.json", R"({"model_type": "bert"})");
  write("model.bin", "no part of it");
  const auto tokenizer = open();
  const TemporaryFolder copy;
  write_tokenizer(*tokenizer, copy.path(), 7);
  EXPECT_EQ(std::distance(fs::directory_iterator(copy.path()), fs::directory_iterator()), 2);
  const auto json = read_json_file(copy / "tokenizer.json"),
             config = read_json_file(copy / "tokenizer_config.json");
  EXPECT_EQ(json["normalizer"]["lowercase"], false);
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["mask_token"], "[MASK]");
  EXPECT_EQ(config["pad_token"], "[PAD]");
  EXPECT_EQ(config["added_tokens_decoder"]["4"]["content"], "[MASK]");
  EXPECT_EQ(config["model_input_names"].size(), 3U);
  EXPECT_EQ(config["model_max_length"], 7);
  const auto again = open_tokenizer(copy.path());
  for (const char* text : {"The captain [MASK]", "THE sea"})
    EXPECT_EQ(again->encode(text, SpecialNames::tokens),
              tokenizer->encode(text, SpecialNames::tokens));
}

/// transformers refuses the older key without the newer one.
TEST_F(OpenTokenizer, WritesPrependSchemes) {
  nlohmann::json json = read_json_file(fixtures / "small/unigram/tokenizer.json");
  const nlohmann::json older = {
      {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"add_prefix_space", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({older})}};
  json["decoder"] = older;
  describe(json);
  const TemporaryFolder copy;
  write_tokenizer(*open(), copy.path(), 7);
  const nlohmann::json written = read_json_file(copy / "tokenizer.json");
  for (const auto& each : {written["pre_tokenizer"]["pretokenizers"][0], written["decoder"]}) {
    EXPECT_FALSE(each.contains("add_prefix_space"));
    EXPECT_EQ(each["prepend_scheme"], "never");
  }
  EXPECT_EQ(open_tokenizer(copy.path())->encode("the sea"), open()->encode("the sea"));
}

/// Each digit counts: "a aa" and "aa a" have nearly the same score.
TEST_F(OpenTokenizer, WritesTheDigitsOfScores) {
  const std::string pieces =
      R"([["<unk>",-20.0],["x",-6.837900687899666],["a",-11.478897094726562],)"
      R"(["aa",-14.643186077442952]])";
  write("tokenizer.json", R"({"model":{"type":"Unigram","unk_id":0,"vocab":)" + pieces + "}}");
  const TemporaryFolder copy;
  write_tokenizer(*open(), copy.path(), 7);
  EXPECT_NE(read_bytes(copy / "tokenizer.json").find(pieces), std::string::npos);
  for (const fs::path& folder : {folder_.path(), copy.path()})
    EXPECT_EQ(open_tokenizer(folder)->encode("xaaa"), (Ids{1, 2, 3}));
}

TEST_F(OpenTokenizer, LengthsAreThoseOfTheModel) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 8}, {"strategy", "LongestFirst"}, {"stride", 0}};
  describe(json);
  configure(R"({"model_max_length": 512})");
  const auto tokenizer = open();
  const auto written = [&](std::int64_t length, std::size_t file) {
    return nlohmann::json::parse(tokenizer->files(length)[file].content);
  };
  EXPECT_EQ(written(128, 0)["truncation"]["max_length"], 128);
  EXPECT_EQ(written(4096, 0)["truncation"]["max_length"], 4096);
  EXPECT_EQ(written(128, 1)["model_max_length"], 128);
  EXPECT_EQ(written(4096, 1)["model_max_length"], 4096);
}

/// As in transformers: tokenizer_config.json, then tokenizer_class and model_type of config.json.
TEST_F(OpenTokenizer, TheClassMayBeTheModels) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  json["normalizer"]["lowercase"] = true;
  describe(json);
  configure(R"({"do_lower_case": false})");
  const auto upper = [&] { return open()->encode("THE"); };
  const Ids lower = open()->encode("the");
  EXPECT_EQ(upper(), lower) << "no class, no change";
  write("config.json", R"({"model_type": "bert"})");
  EXPECT_NE(upper(), lower);
  write("config.json", R"({"model_type": "t5", "tokenizer_class": "BertTokenizer"})");
  EXPECT_NE(upper(), lower);
  write("config.json", R"({"model_type": "t5"})");
  EXPECT_EQ(upper(), lower);
  configure(R"({"do_lower_case": false, "tokenizer_class": "ElectraTokenizerFast"})");
  EXPECT_NE(upper(), lower);
}

TEST_F(OpenTokenizer, RefusesClassesOfPython) {
  copy("small/wordpiece/vocab.txt");
  const auto refused = [&](const char* file, const std::string& text, const std::string& part) {
    write(file, text);
    expect_says(error(), part);
    fs::remove(folder_ / file);
  };
  for (const char* name : {"BertJapaneseTokenizer", "BertweetTokenizer", "KoBertTokenizer",
                           "PegasusTokenizerFast"})  // Pegasus's class renumbers its tokens
    refused("tokenizer_config.json", R"({"tokenizer_class": ")" + std::string(name) + "\"}",
            "tokenizer_config.json: tokenizer_class: " + std::string(name) + " needs Python");
  refused("config.json", R"({"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"})",
          "config.json: tokenizer_class: BertJapaneseTokenizer needs Python");
  refused("config.json", R"({"model_type": "roc_bert"})",
          "config.json: model_type: the tokenizer of roc_bert needs Python");
}

/// Pairs have token types only where transformers makes them.
TEST_F(OpenTokenizer, TheInputsDecideAboutTokenTypes) {
  copy("small/wordpiece/tokenizer.json");
  const auto types = [&](const std::string& config) {
    configure(config);
    return open()->wrap(Ids{9}, Ids{8}).type_ids;
  };
  const Ids two{0, 0, 0, 1, 1}, one{0, 0, 0, 0, 0};
  EXPECT_EQ(types("{}"), two);
  EXPECT_EQ(types(R"({"tokenizer_class": "BertTokenizer"})"), two);
  EXPECT_EQ(types(R"({"tokenizer_class": "DistilBertTokenizer"})"), one);
  EXPECT_EQ(types(R"({"tokenizer_class": "TokenizersBackend"})"), one);
  EXPECT_EQ(types(R"({"tokenizer_class": "BertTokenizer",
                      "model_input_names": ["input_ids", "attention_mask"]})"),
            one);
  EXPECT_EQ(types(R"({"tokenizer_class": "CamembertTokenizer",
                      "model_input_names": ["input_ids", "token_type_ids"]})"),
            two);
}

TEST_F(OpenTokenizer, ReadsFoldersOfTransformers5) {
  copy("small/wordpiece/tokenizer.json");
  configure(R"({"tokenizer_class": "TokenizersBackend", "backend": "tokenizers",
                  "mask_token": "[MASK]", "extra_special_tokens": ["the"]})");
  const auto tokenizer = open();
  const std::int32_t the = tokenizer->find("the").value();
  EXPECT_EQ(tokenizer->decode(Ids{the}), "") << "it is special";
  const TemporaryFolder copy;
  write_tokenizer(*tokenizer, copy.path(), 7);
  const auto config = read_json_file(copy / "tokenizer_config.json");
  EXPECT_FALSE(config.contains("extra_special_tokens")) << "version 4 wants an object there";
  EXPECT_EQ(config["added_tokens_decoder"][std::to_string(the)]["special"], true);
}

/// In training texts, names of special tokens are ordinary characters in every model.
TEST_F(OpenTokenizer, TextHoldsNoSpecialTokens) {
  const auto tokenizer = open_tokenizer(fixtures / "albert");
  for (const char* name : {"[CLS]", "<pad>", "<unk>", "[MASK]"})
    for (const std::int32_t id : tokenizer->encode(std::string("a ") + name + " b" + name))
      EXPECT_TRUE(id > 4 || id == tokenizer->special().unk) << name;
  // Nor does it where they have usual names alone; files that are written list them.
  for (const bool added : {false, true}) {
    nlohmann::json json = nlohmann::json::parse(R"({"added_tokens": [],
      "model": {"type": "Unigram", "unk_id": 0,
                "vocab": [["<unk>", -9], ["<pad>", -1], ["<mask>", -1], ["a", -2]]}})");
    if (added) json["added_tokens"].push_back({{"id", 1}, {"content", "<pad>"}});
    describe(json);
    const TemporaryFolder copy;
    write_tokenizer(*open(), copy.path(), 7);
    for (const fs::path& folder : {folder_.path(), copy.path()})
      EXPECT_EQ(open_tokenizer(folder)->encode("a<pad>a<mask>"), (Ids{3, 0, 3, 0, 3, 0, 3, 0}));
  }
}

/// Whatever `special` says of them, as in transformers; their other flags stay.
TEST_F(OpenTokenizer, NamedTokensAreSpecial) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  for (nlohmann::json& each : json["added_tokens"]) each["special"] = false;
  json["added_tokens"][3]["lstrip"] = true;
  describe(json);
  const auto expect_special = [&] {
    const auto tokenizer = open();
    const std::int32_t sep = tokenizer->special().sep;
    const std::string text = "the  [SEP] sea";
    for (const std::int32_t id : tokenizer->encode(text)) EXPECT_NE(id, sep);
    EXPECT_EQ(tokenizer->encode_with_offsets(text, SpecialNames::tokens)[1],
              (Token{sep, 3, 10, 1}));
    EXPECT_EQ(tokenizer->decode(Ids{sep}), "");
    EXPECT_EQ(nlohmann::json::parse(tokenizer->files(7)[0].content)["added_tokens"][3]["special"],
              true);
  };
  configure(R"({"tokenizer_class": "PreTrainedTokenizerFast", "sep_token": "[SEP]"})");
  expect_special();
  for (const char* its_class : {"BertTokenizer", "DebertaV2Tokenizer"}) {
    use_class(its_class);
    expect_special();
  }
}

TEST_F(OpenTokenizer, SettingsOfBert) {
  const std::string pieces = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nab\nAb\n\xC3\xA1\nAB\n";
  write("vocab.txt", pieces);
  EXPECT_EQ(open()->encode("Ab ab"), (Ids{5, 5}));
  configure(R"({"do_lower_case": false, "cls_token": {"content": "AB"}})");
  const auto cased = open();
  EXPECT_EQ(cased->encode("Ab ab \xC3\xA1"), (Ids{6, 5, 7}));
  EXPECT_EQ(cased->wrap(Ids{5}).ids, (Ids{8, 5, 2}));
  EXPECT_EQ(cased->special().cls, 8);
  write("special_tokens_map.json", R"({"mask_token": "<mask>"})");
  EXPECT_EQ(error(),
            "DIR/special_tokens_map.json: mask_token: '<mask>' is no piece of the vocabulary");
  write("added_tokens.json", R"({"<mask>": 9})");
  EXPECT_EQ(open()->encode("ab <mask>", SpecialNames::tokens), (Ids{5, 9}));
  write("added_tokens.json", R"({"<mask>": 8})");
  EXPECT_EQ(error(), "DIR/added_tokens.json: '<mask>' has id 8, which is 'AB' in the vocabulary");
  configure(R"({"do_lower_case": 1})");
  EXPECT_EQ(error(), "DIR/tokenizer_config.json: do_lower_case: got 1, expected true or false");
}

TEST_F(OpenTokenizer, SpecialTokens) {
  const auto special_of = [](const char* name) {
    return open_tokenizer(fixtures / "small" / name)->special();
  };
  const SpecialIds bert = special_of("wordpiece"), roberta = special_of("byte_level"),
                   none = special_of("bytes_for_unknown");
  EXPECT_EQ((Ids{bert.cls, bert.sep, bert.pad, bert.mask, bert.unk}), (Ids{2, 3, 0, 4, 1}));
  EXPECT_EQ((Ids{roberta.cls, roberta.sep, roberta.pad, roberta.mask, roberta.unk}),
            (Ids{0, 2, 1, 500, 3}));
  EXPECT_EQ(none.cls, 5);  // found by its common name
  write("vocab.json", R"({"a": 0, "<|endoftext|>": 1})");
  write("merges.txt", "#version: 0.2\n");
  const auto gpt2 = open();
  EXPECT_EQ(gpt2->special().mask, no_id);
  EXPECT_EQ(gpt2->special().unk, 1);
  EXPECT_EQ(gpt2->encode("a<|endoftext|>", SpecialNames::tokens), (Ids{0, 1}));
  EXPECT_EQ(gpt2->wrap(Ids{0}, Ids{0}).type_ids, (Ids{0, 1}));
  EXPECT_EQ(input_error([&] { require_masked_lm_tokens(*gpt2); }),
            "the tokenizer has no cls token; masked language models need cls, sep, pad and mask: "
            "name it as cls_token in tokenizer_config.json");
}

/// The template of pretraining is used everywhere, also in transformers.
TEST_F(OpenTokenizer, MakesTheTemplateThatIsMissing) {
  const std::string small =
      R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3, "[C]": 4, "[S]": 5, "[P]": 6, "[M]": 7})";
  const std::string config =
      R"({"tokenizer_class": "GPT2Tokenizer", "cls_token": "[C]", "sep_token": "[S]",
    "pad_token": "[P]", "mask_token": "[M]"})";
  write("vocab.json", small);
  write("merges.txt", "#version: 0.2\na b\n");
  configure(config);
  const auto expect_template = [](const Tokenizer& tokenizer) {
    require_masked_lm_tokens(tokenizer);
    EXPECT_EQ(tokenizer.wrap(tokenizer.encode("ab[M]", SpecialNames::tokens)).ids,
              (Ids{4, 2, 7, 5}));
    const WrappedIds pair = tokenizer.wrap(Ids{0}, Ids{1});
    EXPECT_EQ(pair.ids, (Ids{4, 0, 5, 1, 5}));
    EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 0, 0})) << "GPT-2's class has no token types";
  };
  const auto files = open();
  expect_template(*files);
  // A tokenizer.json carries the template to transformers.
  const TemporaryFolder copy, again;
  write_tokenizer(*files, copy.path(), 7);
  EXPECT_EQ(read_json_file(copy / "tokenizer.json")["post_processor"]["type"],
            "TemplateProcessing");
  expect_template(*open_tokenizer(copy.path()));
  // A post-processor that only trims offsets keeps doing so.
  nlohmann::json json = read_json_file(copy / "tokenizer.json");
  json["post_processor"] = {
      {"type", "ByteLevel"}, {"trim_offsets", true}, {"add_prefix_space", false}};
  write_bytes(copy / "tokenizer.json", json.dump());
  const auto trimming = open_tokenizer(copy.path());
  expect_template(*trimming);
  write_tokenizer(*trimming, again.path(), 7);
  const nlohmann::json written = read_json_file(again / "tokenizer.json")["post_processor"];
  EXPECT_EQ(written["processors"][0]["type"], "ByteLevel");
  EXPECT_EQ(written["processors"][1]["type"], "TemplateProcessing");
  expect_template(*open_tokenizer(again.path()));
  EXPECT_EQ(open_tokenizer(again.path())->encode_with_offsets("a b")[1].begin, 1u)
      << "there is no piece for the space";
}

TEST_F(OpenTokenizer, AnEmptyPieceIsNoSpecialToken) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  json["added_tokens"] = nlohmann::json::array();
  json["post_processor"] = nullptr;
  json["model"]["vocab"] = {{"[UNK]", 0},  {"[PAD]", 1}, {"[CLS]", 2}, {"[SEP]", 3},
                            {"[MASK]", 4}, {"", 5},      {"hello", 6}};
  describe(json);
  const Ids text{6}, wrapped{2, 6, 3};
  EXPECT_EQ(open()->wrap(text).ids, wrapped);
  use_class("BertTokenizer");  // names neither bos nor eos
  const TemporaryFolder written;
  write_tokenizer(*open(), written.path(), 64);
  EXPECT_EQ(open_tokenizer(written.path())->wrap(text).ids, wrapped);
}

TEST_F(OpenTokenizer, RefusesATemplateThatPretrainingDoesNotMake) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}}}},
      {"pair", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"[SEP]", {{"id", "[SEP]"}, {"ids", {3}}, {"tokens", {"[SEP]"}}}}}}};
  describe(json);
  EXPECT_EQ(input_error([&] { require_masked_lm_tokens(*open()); }),
            "the tokenizer makes '[MASK] [SEP]' of a text; masked language models are trained on "
            "'[CLS] [MASK] [SEP]': give it that template, or other names as cls_token and "
            "sep_token in tokenizer_config.json");
}

/// tokenizer_config.json overrides tokenizer.json, as in transformers.
/// tests/reference/check_tokenizer_files.py tests random folders.
TEST_F(OpenTokenizer, SettingsGoBeforeTokenizerJson) {
  const nlohmann::json vocabulary = {{"[UNK]", 0}, {"[CLS]", 1},    {"[SEP]", 2}, {"ab", 3},
                                     {"AB", 4},    {"\xC3\xA1", 5}, {"a", 6}};
  nlohmann::json json = {
      {"added_tokens", nlohmann::json::array()},
      {"normalizer",
       {{"type", "BertNormalizer"}, {"lowercase", false}, {"strip_accents", nullptr}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]", 2}}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocabulary}}}};
  const auto encode = [&](const std::string& config, const char* text) {
    describe(json);
    configure(config);
    return open()->encode(text, SpecialNames::tokens);
  };
  const char* text = "AB \xC3\xA1";
  EXPECT_EQ(
      encode(R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": true})", text),
      (Ids{4, 5}));
  EXPECT_EQ(encode(R"({"tokenizer_class": "BertTokenizerFast"})", text), (Ids{3, 6}))
      << "lower case, unless told otherwise";
  EXPECT_EQ(encode(R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})", text),
            (Ids{4, 5}));
  EXPECT_EQ(encode(R"({"tokenizer_class": "BertTokenizer", "strip_accents": false})", text),
            (Ids{3, 5}));
  // Special tokens given by name, and tokens given with ids.
  EXPECT_EQ(encode(R"({"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "ab"})", "abab"),
            (Ids{3, 3}));
  EXPECT_EQ(
      encode(R"({"added_tokens_decoder": {"7": {"content": "<x>", "special": true}}})", "ab<x>"),
      (Ids{3, 7}));
  EXPECT_EQ(
      error_in_dir([&] { encode(R"({"added_tokens_decoder": {"9": {"content": "<x>"}}})", ""); }),
      "DIR/tokenizer_config.json: added_tokens_decoder: '<x>' has id 9, expected 7: new tokens are "
      "numbered from the number of pieces on, in order");
  EXPECT_EQ(
      error_in_dir([&] { encode(R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})", ""); }),
      "DIR/tokenizer_config.json: added_tokens_decoder: 'x' is no id");
  // With an added_tokens_decoder, special_tokens_map.json is ignored. Without one it takes
  // precedence.
  write("special_tokens_map.json", R"({"cls_token": "ab"})");
  encode(R"({"cls_token": "[CLS]"})", "");
  EXPECT_EQ(open()->special().cls, 3);
  encode(R"({"cls_token": "[CLS]", "added_tokens_decoder": {}})", "");
  EXPECT_EQ(open()->special().cls, 1);
}

TEST_F(OpenTokenizer, SettingsOfByteLevel) {
  nlohmann::json json = read_json_file(fixtures / "small/byte_level/tokenizer.json");
  json["pre_tokenizer"]["add_prefix_space"] = true;
  describe(json);
  const auto alone = open();
  EXPECT_EQ(alone->encode("the"), alone->encode(" the"));
  // The file written for transformers has the option too: without it the classes of transformers
  // add no space.
  const TemporaryFolder copy;
  write_tokenizer(*alone, copy.path(), 7);
  EXPECT_EQ(read_json_file(copy / "tokenizer_config.json")["add_prefix_space"], true);
  EXPECT_EQ(open_tokenizer(copy.path())->encode("the"), alone->encode("the"));
  configure("{}");
  EXPECT_NE(open()->encode("the"), alone->encode("the"));
  // RoBERTa's class decides whether offsets exclude spaces. GPT-NeoX's class decides the template.
  configure(R"({"tokenizer_class": "RobertaTokenizer", "trim_offsets": false})");
  EXPECT_EQ(open()->encode_with_offsets("a the")[1].begin, 1u);
  use_class("RobertaTokenizer");
  EXPECT_EQ(open()->encode_with_offsets("a the")[1].begin, 2u);
  configure(R"({"tokenizer_class": "GPTNeoXTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
          "add_eos_token": true})");
  EXPECT_EQ(open()->wrap(Ids{9}, Ids{8}).ids, (Ids{9, 2, 8, 2}));
}

/// Where these are no pieces, transformers adds tokens for which no model has a row.
TEST_F(OpenTokenizer, TokensAroundTextsArePieces) {
  copy("small/byte_level/tokenizer.json");
  for (const auto& [its_class, token] : {std::pair("GemmaTokenizerFast", "<bos>"),
                                         std::pair("CohereTokenizerFast", "<BOS_TOKEN>")}) {
    use_class(its_class);
    EXPECT_EQ(error(), fmt::format("DIR/tokenizer_config.json: '{}' stands around texts, but is no "
                                   "piece of the vocabulary",
                                   token));
  }
}

/// The flags that the files give a special token: "l", "r", both or none; null: not in the file.
/// `begin` and `end` are its place in "a  TOKEN  b" by transformers 4.57.1.
struct FlagCase {
  const char *its_class, *token, *tokenizer_json, *decoder;
  std::uint32_t begin, end;
  const char *config = "{}", *special_tokens_map = "{}";
};

TEST_F(OpenTokenizer, TheClassDecidesAboutFlagsOfItsSpecialTokens) {
  constexpr const char* object = R"({"content": "<mask>", "lstrip": false, "rstrip": true,
                                     "single_word": false, "normalized": false})";
  const std::string map = R"({"mask_token": )" + std::string(object) + "}";
  constexpr const char *names = R"({"mask_token": "<mask>"})",
                       *separator = R"({"sep_token": "</s>"})",
                       *both = R"({"eos_token": "</s>", "sep_token": "</s>"})",
                       *stripping_separator =
                           R"({"sep_token": {"content": "</s>", "lstrip": true}})";
  const FlagCase cases[] = {
      {"BigBirdTokenizer", "<s>", "l", nullptr, 3, 6},
      {"BigBirdTokenizer", "<s>", "l", "lr", 3, 6},
      {"BigBirdTokenizer", "<s>", "", "l", 1, 6},
      {"XLMRobertaTokenizer", "<s>", "l", nullptr, 1, 6},
      {"RobertaTokenizer", "<s>", "r", nullptr, 3, 8},
      {"RobertaTokenizer", "<s>", "r", "l", 1, 6},
      {"RobertaTokenizer", "<mask>", "", nullptr, 1, 9},
      {"RobertaTokenizer", "<mask>", "r", "r", 1, 9},
      {"RobertaTokenizer", "<mask>", "", "r", 1, 9},
      {"RobertaTokenizer", "<mask>", "l", "r", 3, 11},
      {"RobertaTokenizer", "<mask>", "r", "", 3, 9, names},
      {"RobertaTokenizer", "<mask>", "r", nullptr, 3, 11, names},
      {"RobertaTokenizer", "<mask>", nullptr, nullptr, 3, 11, "{}", map.c_str()},
      {"FNetTokenizer", "[SEP]", "l", nullptr, 3, 8},
      {"Qwen2Tokenizer", "<|endoftext|>", "lr", nullptr, 3, 16},
      {"MvpTokenizer", "</s>", "l", "r", 3, 7},
      // Of a token with several roles the first one decides: eos, here the class's, goes before
      // sep.
      {"MvpTokenizer", "</s>", "l", nullptr, 3, 7, "{}", separator},
      {"MvpTokenizer", "</s>", "l", nullptr, 1, 7, "{}", both},
      {"RobertaTokenizer", "</s>", nullptr, nullptr, 3, 7, "{}", stripping_separator},
  };
  const nlohmann::json vocabulary = {{"<unk>", 0}, {"<s>", 1},    {"</s>", 2},
                                     {"<pad>", 3}, {"<mask>", 4}, {"a", 5},
                                     {"b", 6},     {"[SEP]", 7},  {"<|endoftext|>", 8}};
  for (const FlagCase& each : cases) {
    SCOPED_TRACE(fmt::format("{} {} {} {} {}", each.its_class, each.token,
                             each.tokenizer_json ? each.tokenizer_json : "-",
                             each.decoder ? each.decoder : "-", each.special_tokens_map));
    const auto described = [&](std::string_view flags) {
      return nlohmann::json{{"content", each.token},
                            {"single_word", false},
                            {"lstrip", flags.find('l') != flags.npos},
                            {"rstrip", flags.find('r') != flags.npos},
                            {"normalized", false},
                            {"special", true}};
    };
    const auto id = vocabulary[each.token].get<std::int32_t>();
    nlohmann::json json = {{"version", "1.0"},
                           {"added_tokens", nlohmann::json::array()},
                           {"pre_tokenizer", {{"type", "Whitespace"}}},
                           {"model",
                            {{"type", "WordPiece"},
                             {"continuing_subword_prefix", "##"},
                             {"max_input_chars_per_word", 100},
                             {"vocab", vocabulary},
                             {"unk_token", "<unk>"}}}};
    if (each.tokenizer_json != nullptr) {
      json["added_tokens"].push_back(described(each.tokenizer_json));
      json["added_tokens"][0]["id"] = id;
    }
    auto config = nlohmann::json::parse(each.config);
    config["tokenizer_class"] = each.its_class;
    if (each.decoder != nullptr)
      config["added_tokens_decoder"][std::to_string(id)] = described(each.decoder);
    describe(json);
    configure(config.dump());
    write("special_tokens_map.json", each.special_tokens_map);
    const auto tokens =
        open()->encode_with_offsets(fmt::format("a  {}  b", each.token), SpecialNames::tokens);
    const auto found = std::ranges::find(tokens, id, &Token::id);
    ASSERT_NE(found, tokens.end());
    EXPECT_EQ(found->begin, each.begin);
    EXPECT_EQ(found->end, each.end);
  }
}

/// But for `normalized`, in which the first ones stay. Expected are the ids of transformers 4.57.1.
TEST_F(OpenTokenizer, TheLastFlagsOfATokenWithoutARoleCount) {
  const auto listed = [](const std::string& token) {
    return R"("additional_special_tokens": [)" + token + "]";
  };
  const std::string name = R"("ath")", word = R"({"content": "ath", "single_word": true})",
                    normal = R"({"content": "ath", "normalized": true})";
  const auto own_role = [](const std::string& token) {
    return R"("extra_special_tokens": {"x_token": )" + token + "}";
  };
  // Settings, special_tokens_map.json, whether tokenizer.json has the token too, ids.
  const std::tuple<std::string, std::string, bool, Ids> cases[] = {
      {listed(word), listed(name), false, {2, 4, 5, 2, 1, 0}},
      {listed(name), listed(word), false, {2, 4, 5, 2, 4, 5}},
      {listed(normal), listed(name), false, {2, 1, 0, 2, 1, 0}},
      {listed(name), listed(normal), false, {2, 4, 5, 2, 1, 0}},
      {listed(word), "", true, {2, 4, 5, 2, 4, 5}},
      {listed(name), "", true, {2, 4, 5, 2, 1, 0}},
      {listed(word) + R"(, "bos_token": "ath")", "", false, {2, 4, 5, 2, 1, 0}},
      {listed(word) + ", " + own_role(name), "", false, {2, 4, 5, 2, 4, 5}},
      {listed(name) + ", " + own_role(word), "", false, {2, 4, 5, 2, 1, 0}},
  };
  for (const auto& [config, map, described, expected] : cases) {
    SCOPED_TRACE(config + " " + map);
    nlohmann::json json = nlohmann::json::parse(R"({
      "added_tokens": [],
      "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
      "model": {"type": "WordPiece", "unk_token": "[UNK]",
                "vocab": {"[UNK]": 0, "ath": 1, "p": 2, "##th": 3, "##ath": 4, "##e": 5}}})");
    if (described)
      json["added_tokens"].push_back(
          {{"id", 1}, {"content", "ath"}, {"special", true}, {"rstrip", true}});
    describe(json);
    configure(R"({"tokenizer_class": "PreTrainedTokenizerFast", )" + config + "}");
    write("special_tokens_map.json", "{" + map + "}");
    EXPECT_EQ(open()->encode("pATHe pathe", SpecialNames::tokens), expected);
  }
}

TEST_F(OpenTokenizer, SomeClassesLeaveAddPrefixSpaceAsItIs) {
  nlohmann::json json = read_json_file(fixtures / "small/byte_level/tokenizer.json");
  json["pre_tokenizer"]["add_prefix_space"] = true;
  describe(json);
  const auto adds_space = [&](const char* its_class) {
    configure(fmt::format(R"({{"tokenizer_class": "{}", "bos_token": "<s>", "eos_token": "</s>"}})",
                          its_class));
    const auto tokenizer = open();
    return tokenizer->encode("the") == tokenizer->encode(" the");
  };
  for (const char* each : {"T5Tokenizer", "MT5Tokenizer", "LlamaTokenizer"})
    EXPECT_TRUE(adds_space(each)) << each;
  for (const char* each : {"GemmaTokenizer", "CohereTokenizer", "Qwen2Tokenizer"})
    EXPECT_FALSE(adds_space(each)) << each;
  configure(R"({"tokenizer_class": "BlenderbotSmallTokenizer", "add_prefix_space": true})");
  EXPECT_NE(open()->encode("the"), open()->encode(" the")) << "it does not pass the option on";
}

/// transformers searches the token by the normalizer of the file, which no written file could say.
TEST_F(OpenTokenizer, AddedTokensKeepTheirFormUnderTheSettings) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  json["normalizer"]["lowercase"] = true;
  nlohmann::json& added = json["added_tokens"].emplace_back(
      nlohmann::json{{"id", 400}, {"content", "HELLO"}, {"normalized", true}});
  configure(R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})");
  describe(json);
  EXPECT_EQ(error(),
            "DIR/tokenizer.json: the added token 'HELLO' is 'hello' by the normalizer and 'HELLO' "
            "by that of the settings beside it, and no tokenizer.json can hold both; write "
            "do_lower_case and strip_accents into the normalizer");
  added["content"] = "hello";
  describe(json);
  EXPECT_EQ(open()->encode("hello"), (Ids{400}));
}

TEST_F(OpenTokenizer, RefusesSettingsThatMakeOtherFilesDecide) {
  copy("small/unigram/tokenizer.json");
  const auto refused = [&](const std::string& settings, const char* place) {
    configure("{" + settings + "}");
    EXPECT_EQ(error(),
              fmt::format("DIR/tokenizer_config.json: {}: with it transformers reads other "
                          "files than tokenizer.json; save the tokenizer once, "
                          "AutoTokenizer.from_pretrained(…).save_pretrained(…), and "
                          "remove the key there",
                          place));
  };
  refused(R"("tokenizer_class": "MT5TokenizerFast", "add_prefix_space": true)", "add_prefix_space");
  refused(R"("from_slow": true)", "from_slow");
  refused(R"("fast_tokenizer_files": ["tokenizer.json", "tokenizer.4.13.0.json"])",
          "fast_tokenizer_files[1]");
  configure(R"({"tokenizer_class": "T5Tokenizer", "add_prefix_space": null, "from_slow": false,
                "fast_tokenizer_files": ["tokenizer.json"]})");
  EXPECT_EQ(error(), "no error");
  configure(R"({"add_prefix_space": false})");
  write("config.json", R"({"model_type": "llama"})");
  expect_says(error(), "tokenizer_config.json: add_prefix_space: with it transformers reads");
}

/// Splinter's class sets the case and accents of the normalizer, and leaves Chinese as it is.
TEST_F(OpenTokenizer, SplinterKeepsChineseTogether) {
  nlohmann::json json = read_json_file(fixtures / "small/wordpiece/tokenizer.json");
  json["normalizer"]["handle_chinese_chars"] = false;
  describe(json);
  const auto count = [&](const char* its_class) {
    use_class(its_class);
    return open()->encode("東京").size();
  };
  EXPECT_EQ(count("SplinterTokenizer"), 1U);
  EXPECT_EQ(count("BertTokenizer"), 2U);
}

TEST_F(OpenTokenizer, WordsBegin) {
  const auto starts = [](const Tokenizer& tokenizer, const char* piece) {
    return tokenizer.surface(tokenizer.find(piece).value()).starts_with(' ');
  };
  const auto wordpiece = open_tokenizer(fixtures / "small/wordpiece"),
             bytes = open_tokenizer(fixtures / "small/byte_level"),
             unigram = open_tokenizer(fixtures / "small/unigram"),
             suffixes = open_tokenizer(fixtures / "small/suffixes");
  EXPECT_TRUE(starts(*wordpiece, "the"));
  EXPECT_FALSE(starts(*wordpiece, "##ing"));
  EXPECT_TRUE(starts(*wordpiece, "[MASK]"));
  EXPECT_TRUE(starts(*bytes, "\xC4\xA0the"));
  EXPECT_FALSE(starts(*bytes, "ing"));
  EXPECT_TRUE(starts(*unigram, "\xE2\x96\x81the"));
  EXPECT_FALSE(starts(*unigram, "ing"));
  EXPECT_TRUE(wordpiece->marks_words() && bytes->marks_words() && unigram->marks_words());
  EXPECT_FALSE(suffixes->marks_words());
}

TEST_F(OpenTokenizer, PiecesAndErrors) {
  const auto tokenizer = open_tokenizer(fixtures / "bert-base-uncased");
  EXPECT_EQ(tokenizer->piece(1996), "the");
  EXPECT_EQ(tokenizer->find("the"), 1996);
  EXPECT_EQ(tokenizer->find("no such piece"), std::nullopt);
  EXPECT_EQ(testing::message_of([&] { tokenizer->piece(30522); }),
            "tokenizer: got id 30522, expected 0 to 30521");
  EXPECT_EQ(testing::message_of([&] { tokenizer->decode(Ids{-1}); }),
            "tokenizer: got id -1, expected 0 to 30521");
  EXPECT_EQ(input_error([&] { tokenizer->encode("ab\xFF"); }),
            "the text is not valid UTF-8 at byte 2");
}

TEST_F(OpenTokenizer, IdsDoNotDependOnThePlace) {
  for (const char* name : {"small/byte_level", "small/unigram", "bert-base-uncased", "albert"}) {
    const auto tokenizer = open_tokenizer(fixtures / name);
    const std::string words = " the 1,234 caf\xC3\xA9s' unbelievable \xE6\x9D\xB1\xE4\xBA\xAC";
    const Ids once = tokenizer->encode(words);
    std::string many;
    Ids expected;
    for (int i = 0; i < 300; ++i) {
      many += words;
      expected.insert(expected.end(), once.begin(), once.end());
    }
    EXPECT_EQ(tokenizer->encode(many), expected) << name;
  }
}

}  // namespace
}  // namespace nystrom
