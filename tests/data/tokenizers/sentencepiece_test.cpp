// SentencePiece tokenizers: offsets, decoding, special tokens, and
// training.
#include <gtest/gtest.h>

#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "data/tokenizers/sentencepiece_train.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/data/tokenizers/sentencepiece_bytes.h"
#include "tests/support/fixtures.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& albert() {
  static const auto tokenizer =
      open_tokenizer(testing::fixture_folder() / "tokenizers/albert/spiece.model");
  return *tokenizer;
}

TEST(SentencePieceTokenizer, SpecialTokens) {
  const SpecialIds& special = albert().special();
  EXPECT_EQ(special.pad, 0);
  EXPECT_EQ(special.unk, 1);
  EXPECT_EQ(special.cls, 2);
  EXPECT_EQ(special.sep, 3);
  EXPECT_EQ(special.mask, 4);
  for (std::int32_t id = 0; id < 8; ++id) EXPECT_EQ(albert().is_special(id), id < 5);
  // With SpecialNames::text the name is ordinary text. With SpecialNames::tokens it is the token,
  // with or without spaces around it.
  const Ids as_text = albert().encode("a [MASK] b");
  EXPECT_EQ(std::count(as_text.begin(), as_text.end(), special.mask), 0);
  const Ids expected = {21, 4, 334};
  EXPECT_EQ(albert().encode("a [MASK] b", SpecialNames::tokens), expected);
  EXPECT_EQ(albert().encode("a[MASK]b", SpecialNames::tokens), expected);
  EXPECT_EQ(albert().encode("[CLS]<pad>[SEP]<unk>", SpecialNames::tokens), (Ids{2, 0, 3, 1}));
}

TEST(SentencePieceTokenizer, PiecesAndWords) {
  EXPECT_EQ(albert().piece(14), "\xE2\x96\x81the");
  EXPECT_EQ(albert().find("\xE2\x96\x81the"), 14);
  EXPECT_EQ(albert().find("no such piece"), std::nullopt);
  EXPECT_EQ(albert().surface(14), " the");
  EXPECT_EQ(albert().surface(15), ",");
}

TEST(SentencePieceTokenizer, Offsets) {
  const std::string text = "  Caf\xC3\xA9, ``Zw\xC3\xB6lf'' 12,345 [MASK]\xF0\x9F\x99\x82 x";
  const auto tokens = albert().encode_with_offsets(text, SpecialNames::tokens);
  const Ids ids = albert().encode(text, SpecialNames::tokens);
  ASSERT_EQ(tokens.size(), ids.size());
  std::string covered;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(tokens[i].id, ids[i]);
    EXPECT_LE(tokens[i].begin, tokens[i].end);
    covered += text.substr(tokens[i].begin, tokens[i].end - tokens[i].begin);
  }
  // As in Hugging Face's tokenizers: a word has the space before it, `` the place of its last sign,
  // and a bare mark that of the character after it.
  EXPECT_EQ(covered, "Caf\xC3\xA9, `Zw\xC3\xB6lf' 12,345 [MASK]\xF0\x9F\x99\x82\xF0\x9F\x99\x82 x");
  EXPECT_EQ(text.substr(tokens[0].begin, tokens[0].end - tokens[0].begin), "Caf\xC3\xA9");
}

TEST(SentencePieceTokenizer, Decode) {
  EXPECT_EQ(albert().decode(Ids{2, 14, 4, 16, 3}), "the of");
  EXPECT_EQ(albert().decode(Ids{2, 14, 4, 16, 3}, false), "[CLS] the[MASK] of[SEP]");
  EXPECT_EQ(albert().decode(Ids{}), "");
  // A bare mark at the start, in the middle and at the end, as in Hugging Face's fast class.
  const std::int32_t mark = albert().find("\xE2\x96\x81").value();
  EXPECT_EQ(albert().decode(Ids{mark, 14, mark, 16, mark}), " the  of ");
  EXPECT_EQ(albert().decode(Ids{mark}), "");
}

TEST(SentencePieceTokenizer, NoPieceJoinsACommaToADigit) {
  for (const char* text : {"1,",
                           "\xE2\x96\x81"
                           "12,",
                           "a3,"})
    EXPECT_TRUE(joins_comma_to_digit(text)) << text;
  for (const char* text : {",", "a,", "1", "1,2", "\xE2\x96\x81,"})
    EXPECT_FALSE(joins_comma_to_digit(text)) << text;
  const auto tokenizer = tokenizer_of_json(
      albert_tokenizer_json(scan_sentencepiece(testing::small_model(), "small"), {}, "small"));
  EXPECT_EQ(tokenizer->encode("ab 2,1"), (Ids{12, 5, 10, 11, 9}));
}

TEST(SentencePieceTokenizer, Errors) {
  const TemporaryFolder folder;
  const auto error = [&] {
    return folder.with_dir(input_error([&] { open_tokenizer(folder.path()); }));
  };
  write_bytes(folder / "spiece.model", testing::smallest_model());
  EXPECT_EQ(error(),
            "DIR/spiece.model: the vocabulary has no piece '[CLS]'; expected [CLS], [SEP], <pad> "
            "and [MASK], as ALBERT's has");
  write_bytes(folder / "spiece.model", testing::small_model());
  write_bytes(folder / "tokenizer_config.json", R"({"do_lower_case": "no"})");
  EXPECT_EQ(error(),
            "DIR/tokenizer_config.json: do_lower_case: got \"no\", expected true or false");
}

/// Tokens of added_tokens.json beside ALBERT's model.
TEST(SentencePieceTokenizer, TakesAddedTokens) {
  const TemporaryFolder folder;
  write_bytes(folder / "spiece.model", testing::small_model());
  write_bytes(folder / "added_tokens.json", R"({"<new>": 15})");
  EXPECT_EQ(open_tokenizer(folder.path())->encode("ab <new>", SpecialNames::tokens),
            (Ids{12, 5, 15}));
}

// ---- Training -----------------------------------------------------------------------------------

/// 60 KB of sentences with three thousand different words.
std::string training_text() {
  const char* syllables[] = {"al",  "ice", "fo", "und", "the", "lit", "tle", "gol",
                             "den", "key", "do", "or",  "op",  "en",  "ing", "won"};
  std::string text = "caf\xC3\xA9s 1,234 times. ";
  std::uint32_t state = 1;
  const auto draw = [&](std::uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
  };
  while (text.size() < 60000) {
    const std::size_t word = text.size();
    for (std::uint32_t i = 0; i < 1 + draw(3); ++i) text += syllables[draw(std::size(syllables))];
    if (draw(8) == 0) text[word] = static_cast<char>(text[word] - 'a' + 'A');
    text += draw(11) == 0 ? ".\n" : " ";
  }
  return text;
}

class TrainSentencePiece : public FolderTest {
 protected:
  SentencePieceTrained train(const std::string& text, const SentencePieceTraining& options) {
    write_bytes(folder_ / "text", text);
    TextReader reader({folder_ / "text"}, Documents::files);
    return train_sentencepiece(reader, options);
  }
};

TEST_F(TrainSentencePiece, RoundTripAndDeterminism) {
  for (const auto kind : {SentencePieceModel::Kind::unigram, SentencePieceModel::Kind::bpe}) {
    for (const bool lower : {true, false}) {
      SentencePieceTraining options{
          .kind = kind, .vocab_size = 100, .normalizer = {lower, !lower}, .character_coverage = 1};
      const auto tokenizer = train(training_text(), options).tokenizer;
      EXPECT_EQ(train(training_text(), options).tokenizer->definition(), tokenizer->definition());
      EXPECT_EQ(tokenizer->vocab_size(), 100);
      for (const char* name : {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"})
        EXPECT_LT(tokenizer->find(name).value(), 5) << name;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode("Alice opening the golden door 1,234 times.")),
                lower ? "alice opening the golden door 1,234 times."
                      : "Alice opening the golden door 1,234 times.");
      EXPECT_EQ(tokenizer->decode(tokenizer->encode("caf\xC3\xA9s")),
                lower ? "caf\xC3\xA9s" : "cafes");
      const TemporaryFolder written;
      write_tokenizer(*tokenizer, written.path(), 64);
      const std::string text = "A [MASK] opens, 1,234 caf\xC3\xA9s ``\xEF\xBC\xA1''";
      EXPECT_EQ(open_tokenizer(written.path())->encode(text, SpecialNames::tokens),
                tokenizer->encode(text, SpecialNames::tokens));
    }
  }
}

/// The library leaves out lines with its own sign for unknown characters, here every line.
TEST_F(TrainSentencePiece, LearnsFromLinesWithItsUnknownSign) {
  std::string text = training_text();
  for (std::size_t at = text.find('.'); at != text.npos; at = text.find('.', at))
    text.replace(at, 1, "\xE2\x96\x85");
  EXPECT_EQ(train(text, {.vocab_size = 100}).tokenizer->vocab_size(), 100);
  expect_says(input_error([&] { train("\xE2\x96\x85\n", {}); }),
              "tokenizer: there is no text to train on");
}

/// Words that differ in a mark only are different words.
TEST_F(TrainSentencePiece, KeepsWordsApart) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "schon schön má mà mạ パンダ ハンダ\n";
  SentencePieceTraining options{.vocab_size = 24, .character_coverage = 1};
  const auto tokenizer = train(text, options).tokenizer;
  EXPECT_NE(tokenizer->encode("schon"), tokenizer->encode("schön"));
  EXPECT_NE(tokenizer->encode("mà"), tokenizer->encode("mạ"));
  EXPECT_NE(tokenizer->encode("パンダ"), tokenizer->encode("ハンダ"));
}

TEST_F(TrainSentencePiece, TakesAnEvenSampleOfMuchText) {
  SentencePieceTraining options{.vocab_size = 80, .max_bytes = 20000};
  const auto run = [&](std::uint64_t seed) {
    options.seed = seed;
    const auto trained = train(training_text(), options);
    EXPECT_LE(trained.taken_bytes, 20000);
    EXPECT_GT(trained.taken_bytes, 15000);
    EXPECT_GT(trained.read_bytes, 55000);
    return trained.tokenizer->definition();
  };
  const std::string first = run(1);
  EXPECT_EQ(run(1), first);
  EXPECT_NE(run(2), first);
}

/// Each different word costs the trainer memory. Hostile or unusual text must not need more than
/// other text.
TEST_F(TrainSentencePiece, TakesLessOfTextWhoseWordsAllDiffer) {
  std::string text;
  for (int word = 0; word < 20000; ++word)
    text += std::to_string(word * 7919 % 100003) + (word % 10 == 9 ? '\n' : ' ');
  const auto trained = train(text, {.vocab_size = 80, .max_words = 5000});
  EXPECT_LE(trained.taken_bytes, trained.read_bytes * 27 / 100);
  EXPECT_GE(trained.taken_bytes, trained.read_bytes * 19 / 100);
}

TEST_F(TrainSentencePiece, Errors) {
  const auto error = [&](const std::string& text, std::int64_t vocab_size,
                         SentencePieceModel::Kind kind = SentencePieceModel::Kind::unigram) {
    SentencePieceTraining options{.kind = kind, .vocab_size = vocab_size};
    return error_in_dir([&] { train(text, options); });
  };
  EXPECT_EQ(error("hello", 20),
            "tokenizer: vocab_size 20 is too large for 5 bytes of text; expected at most 10: leave "
            "it out or give more text");
  EXPECT_EQ(error("hello", 40, SentencePieceModel::Kind::bpe),
            "tokenizer: vocab_size 40 is too large for 5 bytes of text; expected at most 20: lower "
            "it or give more text");
  EXPECT_EQ(error(training_text(), 16),
            "tokenizer: vocab_size 16 is smaller than the 25 characters and special tokens of the "
            "text; raise it");
  EXPECT_EQ(error("", 100),
            "tokenizer: there is no text to train on (1 files, 0 bytes, 0 documents; left out: 1 "
            "empty (first: DIR/text:1))");
  EXPECT_EQ(error("x", 5), "tokenizer: vocab_size is 5, expected 16 to 1000000");
}

TEST_F(TrainSentencePiece, TakesThePiecesThatASmallTextSupports) {
  for (const auto kind : {SentencePieceModel::Kind::unigram, SentencePieceModel::Kind::bpe}) {
    for (const std::size_t bytes : {1, 20, 300, 5000}) {
      const std::string text = training_text().substr(0, bytes);
      SentencePieceTraining options{.kind = kind, .shrink = true};
      const std::int64_t supported = train(text, options).tokenizer->vocab_size();
      EXPECT_GT(supported, 5) << bytes;
      options.shrink = false;
      expect_says(input_error([&] { train(text, options); }),
                  "expected at most " + std::to_string(supported) + ": ");
      if (supported < min_vocab_size) continue;
      options.vocab_size = supported;
      EXPECT_EQ(train(text, options).tokenizer->vocab_size(), supported);
    }
  }
}

}  // namespace
}  // namespace nystrom
