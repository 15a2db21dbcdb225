// Which tokenizer a folder holds, and what it says about words and special tokens.
#include "data/tokenizer_folder.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "data/sentencepiece_tokenizer.h"
#include "tests/support/errors.h"
#include "tests/support/fixtures.h"
#include "tests/train/temporary_folder.h"  // before what opens nystrom::testing

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const fs::path fixtures = testing::fixture_folder() / "tokenizers";

bool is_sentencepiece(const fs::path& place) { return dynamic_cast<const SentencePieceTokenizer*>(open_tokenizer(place).get()) != nullptr; }

TEST(OpenTokenizer, TheFilesOfAFolderDecide) {
  const TemporaryFolder folder;
  EXPECT_FALSE(has_tokenizer(folder.path()));
  EXPECT_EQ(input_error([&] { open_tokenizer(folder.path()); }),
            folder.path().string() +
                ": holds no tokenizer; expected tokenizer.json, spiece.model or another SentencePiece model, vocab.txt, or vocab.json with "
                "merges.txt");
  fs::copy_file(fixtures / "small/byte_level/vocab.json", folder / "vocab.json");
  EXPECT_FALSE(has_tokenizer(folder.path())) << "without merges.txt";
  fs::copy_file(fixtures / "small/byte_level/merges.txt", folder / "merges.txt");
  EXPECT_EQ(open_tokenizer(folder.path())->vocab_size(), 501);
  fs::copy_file(fixtures / "small/wordpiece/vocab.txt", folder / "vocab.txt");
  EXPECT_EQ(open_tokenizer(folder.path())->vocab_size(), 400);
  fs::copy_file(fixtures / "albert/spiece.model", folder / "spiece.model");
  EXPECT_TRUE(is_sentencepiece(folder.path()));
  fs::copy_file(fixtures / "small/unigram/tokenizer.json", folder / "tokenizer.json");
  EXPECT_TRUE(is_sentencepiece(folder.path())) << "ALBERT's model keeps its library";
  write_bytes(folder / "tokenizer_config.json", R"({"tokenizer_class": "AlbertTokenizer"})");
  EXPECT_TRUE(is_sentencepiece(folder.path()));
  write_bytes(folder / "tokenizer_config.json", R"({"tokenizer_class": "T5TokenizerFast"})");
  EXPECT_FALSE(is_sentencepiece(folder.path()));
  EXPECT_TRUE(is_sentencepiece(folder / "spiece.model")) << "a file is taken by its name";
  EXPECT_EQ(open_tokenizer(folder / "merges.txt")->vocab_size(), 501);
  EXPECT_EQ(input_error([&] { open_tokenizer(folder / "tokenizer_config.json"); }),
            std::string(folder / "tokenizer_config.json") +
                ": is no file of a tokenizer by its name; expected a folder, or a tokenizer.json, vocab.txt, vocab.json or *.model");
  EXPECT_EQ(input_error([&] { open_tokenizer(folder / "absent"); }), std::string(folder / "absent") + ": no such file or folder");
}

TEST(OpenTokenizer, CarriesItsFiles) {
  const TemporaryFolder folder;
  for (const char* name : {"tokenizer.json", "vocab.txt"}) fs::copy_file(fixtures / "small/wordpiece" / name, folder / name);
  write_bytes(folder / "tokenizer_config.json", "{ }");
  write_bytes(folder / "model.bin", "no part of it");
  const auto tokenizer = open_tokenizer(folder.path());
  const TemporaryFolder copy;
  write_tokenizer(*tokenizer, copy.path(), 7);
  for (const char* name : {"tokenizer.json", "vocab.txt", "tokenizer_config.json"})
    EXPECT_EQ(read_bytes(copy / name), read_bytes(folder / name)) << name;
  EXPECT_FALSE(fs::exists(copy / "model.bin"));
  EXPECT_EQ(open_tokenizer(copy.path())->definition(), tokenizer->definition());
  // What is opened by its own name takes nothing along that would be opened instead of it.
  EXPECT_EQ(open_tokenizer(folder / "vocab.txt")->files(7).size(), 2u);
  // AutoTokenizer needs to be told the class.
  fs::remove(folder / "tokenizer_config.json");
  EXPECT_EQ(open_tokenizer(folder / "vocab.txt")->files(7).back().content,
            "{\n  \"tokenizer_class\": \"BertTokenizer\",\n  \"cls_token\": \"[CLS]\",\n  \"sep_token\": \"[SEP]\",\n"
            "  \"pad_token\": \"[PAD]\",\n  \"mask_token\": \"[MASK]\",\n  \"unk_token\": \"[UNK]\",\n"
            "  \"clean_up_tokenization_spaces\": false,\n  \"model_max_length\": 7\n}\n");
}

TEST(OpenTokenizer, SettingsOfBert) {
  const TemporaryFolder folder;
  const std::string pieces = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nab\nAb\n\xC3\xA1\nAB\n";
  write_bytes(folder / "vocab.txt", pieces);
  EXPECT_EQ(open_tokenizer(folder.path())->encode("Ab ab"), (Ids{5, 5}));
  write_bytes(folder / "tokenizer_config.json", R"({"do_lower_case": false, "cls_token": {"content": "AB"}})");
  const auto cased = open_tokenizer(folder.path());
  EXPECT_EQ(cased->encode("Ab ab \xC3\xA1"), (Ids{6, 5, 7}));
  EXPECT_EQ(cased->wrap(Ids{5}).ids, (Ids{8, 5, 2}));
  EXPECT_EQ(cased->special().cls, 8);
  write_bytes(folder / "special_tokens_map.json", R"({"mask_token": "<mask>"})");
  EXPECT_EQ(input_error([&] { open_tokenizer(folder.path()); }),
            std::string(folder / "special_tokens_map.json") + ": mask_token: '<mask>' is no piece of the vocabulary");
  write_bytes(folder / "added_tokens.json", R"({"<mask>": 9})");
  EXPECT_EQ(open_tokenizer(folder.path())->encode("ab <mask>"), (Ids{5, 9}));
  write_bytes(folder / "added_tokens.json", R"({"<mask>": 8})");
  EXPECT_EQ(input_error([&] { open_tokenizer(folder.path()); }),
            std::string(folder / "added_tokens.json") + ": [0]: '<mask>' has id 8, which is 'AB' in the vocabulary");
  write_bytes(folder / "tokenizer_config.json", R"({"do_lower_case": 1})");
  EXPECT_EQ(input_error([&] { open_tokenizer(folder.path()); }),
            std::string(folder / "tokenizer_config.json") + ": do_lower_case: got 1, expected true or false");
}

TEST(OpenTokenizer, SpecialTokens) {
  const auto special_of = [](const char* name) { return open_tokenizer(fixtures / "small" / name)->special(); };
  const SpecialIds bert = special_of("wordpiece"), roberta = special_of("byte_level"), none = special_of("bytes_for_unknown");
  EXPECT_EQ((Ids{bert.cls, bert.sep, bert.pad, bert.mask, bert.unk}), (Ids{2, 3, 0, 4, 1}));
  EXPECT_EQ((Ids{roberta.cls, roberta.sep, roberta.pad, roberta.mask, roberta.unk}), (Ids{0, 2, 1, 500, 3}));
  EXPECT_EQ(none.cls, 5);  // by its usual name
  const TemporaryFolder folder;
  write_bytes(folder / "vocab.json", R"({"a": 0, "<|endoftext|>": 1})");
  write_bytes(folder / "merges.txt", "#version: 0.2\n");
  const auto gpt2 = open_tokenizer(folder.path());
  EXPECT_EQ(gpt2->special().mask, no_id);
  EXPECT_EQ(gpt2->special().unk, 1);
  EXPECT_EQ(gpt2->encode("a<|endoftext|>", SpecialNames::tokens), (Ids{0, 1}));
  EXPECT_EQ(gpt2->wrap(Ids{0}, Ids{0}).type_ids, (Ids{0, 1}));
  EXPECT_EQ(
      input_error([&] { require_masked_lm_tokens(*gpt2); }),
      "the tokenizer has no cls token; masked language models need cls, sep, pad and mask: name it as cls_token in tokenizer_config.json");
}

TEST(OpenTokenizer, WordsBegin) {
  const auto starts = [](const Tokenizer& tokenizer, const char* piece) { return tokenizer.starts_word(tokenizer.find(piece).value()); };
  const auto wordpiece = open_tokenizer(fixtures / "small/wordpiece"), bytes = open_tokenizer(fixtures / "small/byte_level"),
             unigram = open_tokenizer(fixtures / "small/unigram"), suffixes = open_tokenizer(fixtures / "small/suffixes");
  EXPECT_TRUE(starts(*wordpiece, "the"));
  EXPECT_FALSE(starts(*wordpiece, "##ing"));
  EXPECT_TRUE(starts(*wordpiece, "[MASK]"));
  EXPECT_TRUE(starts(*bytes, "\xC4\xA0the"));
  EXPECT_FALSE(starts(*bytes, "ing"));
  EXPECT_TRUE(starts(*bytes, "<mask>"));
  EXPECT_TRUE(starts(*unigram, "\xE2\x96\x81the"));
  EXPECT_FALSE(starts(*unigram, "ing"));
  EXPECT_TRUE(wordpiece->marks_words() && bytes->marks_words() && unigram->marks_words());
  EXPECT_FALSE(suffixes->marks_words());
}

TEST(OpenTokenizer, PiecesAndErrors) {
  const auto tokenizer = open_tokenizer(fixtures / "bert-base-uncased");
  EXPECT_EQ(tokenizer->piece(1996), "the");
  EXPECT_EQ(tokenizer->find("the"), 1996);
  EXPECT_EQ(tokenizer->find("no such piece"), std::nullopt);
  EXPECT_EQ(testing::message_of([&] { tokenizer->piece(30522); }), "tokenizer: got id 30522, expected 0 to 30521");
  EXPECT_EQ(testing::message_of([&] { tokenizer->decode(Ids{-1}); }), "tokenizer: got id -1, expected 0 to 30521");
  EXPECT_EQ(input_error([&] { tokenizer->encode("ab\xFF"); }), "the text is not valid UTF-8 at byte 2");
}

TEST(OpenTokenizer, IdsDoNotDependOnThePlace) {
  for (const char* name : {"small/byte_level", "small/unigram", "bert-base-uncased"}) {
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
