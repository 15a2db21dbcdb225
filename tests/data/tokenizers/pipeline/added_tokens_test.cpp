// Edge cases of added tokens, which are found before text is split into words. The expected values
// come from Hugging Face's library.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/tokenizers/pipeline/rounded_number.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {

std::ostream& operator<<(std::ostream& out, const Token& token) {
  return out << token.id << ":" << token.begin << ":" << token.end << " of word " << token.word;
}

namespace {

using Json = nlohmann::json;
using Tokens = std::vector<Token>;

constexpr unsigned lstrip = 1, rstrip = 2, normalized = 4, special = 8;

Json added(const char* content, int id, unsigned flags = 0) {
  return {{"content", content},
          {"id", id},
          {"lstrip", (flags & lstrip) != 0},
          {"rstrip", (flags & rstrip) != 0},
          {"normalized", (flags & normalized) != 0},
          {"special", (flags & special) != 0}};
}

/// BPE with the characters a, b, line feed and space.
Json description(Json tokens) {
  const Json vocabulary = {{"a", 0}, {"b", 1}, {"\n", 2}, {" ", 3}, {"<unk>", 4}};
  return {{"added_tokens", std::move(tokens)},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"vocab", vocabulary},
            {"merges", Json::array()}}}};
}

std::unique_ptr<Tokenizer> tokenizer_of(const Json& json) {
  return tokenizer_of_json(json.dump(), "t.json");
}

Tokens encode(const Json& json, const char* text) {
  return tokenizer_of(json)->encode_with_offsets(text, SpecialNames::tokens);
}

/// These inputs once ended in an abort or in tokens out of order, as in Hugging Face's library.
TEST(AddedTokens, WhiteSpaceThatStripsWhiteSpace) {
  for (const unsigned form : {0u, normalized}) {
    const Json both = description({added("\n", 2, lstrip | rstrip | form)}),
               right = description({added("\n", 2, rstrip | form)}),
               left = description({added("\n", 2, lstrip | form)});
    EXPECT_EQ(encode(both, "\n\n"), (Tokens{{2, 0, 2}}));
    EXPECT_EQ(encode(both, "a \n\n\n b"), (Tokens{{0, 0, 1, 0}, {2, 1, 6, 1}, {1, 6, 7, 2}}));
    EXPECT_EQ(encode(right, "\n\n"), (Tokens{{2, 0, 2, 0}, {2, 1, 2, 1}}));
    EXPECT_EQ(encode(right, "a\n \nb"),
              (Tokens{{0, 0, 1, 0}, {2, 1, 4, 1}, {2, 3, 4, 2}, {1, 4, 5, 3}}));
    EXPECT_EQ(encode(left, "\n \n "), (Tokens{{2, 0, 1, 0}, {2, 1, 3, 1}, {3, 3, 4, 2}}));
  }
  // The spaces of the second token belong to the first, so nothing is left of it. Hugging Face's
  // library fails here.
  EXPECT_EQ(encode(description({added("\n", 2, rstrip), added(" ", 3, lstrip)}), "\n  a"),
            (Tokens{{2, 0, 3, 0}, {0, 3, 4, 1}}));
}

TEST(AddedTokens, AreWordsOfTheirOwn) {
  Json json = description({added("ab", 5), added("ba", 6, normalized)});
  json["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  EXPECT_EQ(encode(json, "aa abab"),
            (Tokens{{0, 0, 1, 0}, {0, 1, 2, 0}, {5, 3, 5, 1}, {5, 5, 7, 2}}));
  EXPECT_EQ(encode(json, "aba bb"),
            (Tokens{{5, 0, 2, 0}, {0, 2, 3, 1}, {1, 4, 5, 2}, {1, 5, 6, 2}}));
  EXPECT_EQ(encode(json, "b ba b"), (Tokens{{1, 0, 1, 0}, {6, 2, 4, 1}, {1, 5, 6, 2}}));
}

TEST(AddedTokens, OfEqualFormsSpecialOnesGoFirst) {
  const auto with = [](unsigned first, unsigned second, const char* text) {
    Json json = description(
        {added("Hello", 5, normalized | first), added("hello", 6, normalized | second)});
    json["normalizer"] = {{"type", "Lowercase"}};
    return encode(json, text)[0].id;
  };
  EXPECT_EQ(with(0, 0, "hello"), 5);
  EXPECT_EQ(with(special, 0, "hello"), 5);
  EXPECT_EQ(with(0, special, "Hello"), 6);
  EXPECT_EQ(with(special, special, "hello"), 5);
}

TEST(AddedTokens, NewOnesAreNumberedInOrder) {
  Json json = description({added("x", 5), added("y", 6)});
  EXPECT_EQ(tokenizer_of(json)->vocab_size(), 7);
  json["added_tokens"][1]["id"] = 9;
  EXPECT_EQ(input_error([&] { tokenizer_of(json); }),
            "t.json: added_tokens[1]: 'y' has id 9, expected 6: new tokens are numbered from the "
            "number of pieces on, in order");
}

TEST(AddedTokens, LeftWithNothing) {
  Json json = description({added("\n", 2, normalized)});
  json["normalizer"] = {{"type", "Strip"}};
  EXPECT_EQ(input_error([&] { tokenizer_of(json); }),
            "the tokenizer's normalizer leaves nothing of the added token '\\x0a', which is to be "
            "found in normal text; give it \"normalized\": false");
}

/// A file may add a token again with other flags, and so may the settings of a folder.
TEST(AddedTokens, AddedAgain) {
  AddedTokenList list;
  list.add({.content = "x", .id = 1, .normalized = true});
  list.add({.content = "x", .id = 1, .lstrip = true});
  const std::vector<AddedToken> both{{.content = "x", .id = 1, .normalized = true, .lstrip = true},
                                     {.content = "x", .id = 1, .lstrip = true}};
  EXPECT_EQ(list.all(), both);
  list.add({.content = "x", .id = 1, .lstrip = true});
  EXPECT_EQ(list.all(), both);
  AddedTokenList special_ones;
  special_ones.add({.content = "x", .id = 1, .special = true});
  special_ones.add({.content = "x", .id = 1, .normalized = true, .rstrip = true});
  EXPECT_EQ(special_ones.all(),
            (std::vector<AddedToken>{{.content = "x", .id = 1, .special = true, .rstrip = true}}));
}

TEST(Vocabulary, IdsMayBeLeftOut) {
  Json json = description(Json::array());
  json["model"]["vocab"]["b"] = 7;
  const auto tokenizer = tokenizer_of(json);
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_EQ(tokenizer->encode("ab"), (std::vector<std::int32_t>{0, 7}));
  EXPECT_EQ(tokenizer->piece(5), "");
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{0, 5, 7}), "a b");
}

TEST(UnknownToken, MayBeAbsentUntilATextNeedsIt) {
  const std::string message =
      "the text holds what is no piece of the tokenizer, whose vocabulary lacks the unknown token "
      "'[UNK]'";
  Json json = description(Json::array());
  json["model"]["unk_token"] = "[UNK]";
  EXPECT_EQ(tokenizer_of(json)->encode("ab"), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(input_error([&] { tokenizer_of(json)->encode("az"); }), message);
  json["model"] = {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", {{"a", 0}}}};
  EXPECT_EQ(tokenizer_of(json)->encode("a"), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(input_error([&] { tokenizer_of(json)->encode("z"); }), message);
}

/// In Hugging Face's library the token is the text itself and not the unknown piece. Its spaces are
/// trimmed.
TEST(Unigram, OffsetsOfUnknownTextAreTrimmed) {
  Json json = description(Json::array());
  json["post_processor"] = {
      {"type", "ByteLevel"}, {"trim_offsets", true}, {"add_prefix_space", false}};
  json["model"] = {{"type", "Unigram"},
                   {"unk_id", 0},
                   {"vocab", Json::array({Json{"<unk>", 0}, Json{"a", -1}, Json{"b", -1}})}};
  EXPECT_EQ(encode(json, "a z b"), (Tokens{{1, 0, 1}, {0, 2, 3}, {2, 4, 5}}));
  EXPECT_EQ(encode(json, "  zz  a"), (Tokens{{0, 2, 4}, {1, 6, 7}}));
  EXPECT_EQ(encode(json, " a"), (Tokens{{0, 1, 1}, {1, 1, 2}}));
}

/// These doubles are next to the nearest ones, as serde_json reads them.
TEST(RoundedNumber, AsSerde) {
  EXPECT_EQ(read_rounded_number("-4.5"), -4.5);
  EXPECT_EQ(read_rounded_number("0"), 0);
  EXPECT_EQ(read_rounded_number("1e22"), 1e22);
  EXPECT_EQ(read_rounded_number("-2.5E-3"), -2.5e-3);
  EXPECT_EQ(read_rounded_number("123456789012345678901234567890"), 12345678901234567890.0 * 1e10);
  EXPECT_EQ(read_rounded_number("0.123456789012345678901234567890"), 12345678901234567890.0 / 1e20);
  EXPECT_EQ(read_rounded_number("1e-400"), 0);
  const double digits = 34635426998138428;  // rounded first, then divided
  EXPECT_EQ(read_rounded_number("-3.4635426998138428"), -(digits / 1e16));
}

/// The replacement of an empty match has the origin of the character before it. At the beginning of
/// a text between added tokens its origin is empty.
TEST(AddedTokens, EmptyMatchesAreReplacedBetweenThem) {
  Json json = description({added("+", 5, special)});
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "(?=a)|$"}}}, {"content", "b"}};
  EXPECT_EQ(encode(json, "aa+a"), (Tokens{{1, 0, 0, 0},
                                          {0, 0, 1, 0},
                                          {1, 0, 1, 0},
                                          {0, 1, 2, 0},
                                          {1, 1, 2, 0},
                                          {5, 2, 3, 1},
                                          {1, 3, 3, 2},
                                          {0, 3, 4, 2},
                                          {1, 3, 4, 2}}));
}

/// What stands for an empty match at the beginning of a text has no place in it. A byte-level word
/// of it alone appears once; Hugging Face's library writes it twice, and panics for "a".
TEST(AddedTokens, ByteLevelWordsWithoutAPlaceAppearOnce) {
  Json json = description(Json::array());
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "^"}}}, {"content", "b"}};
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json["model"]["vocab"].update(Json{{"\u010A", 5}, {"\u0120", 6}});  // of line feed and space
  EXPECT_EQ(encode(json, "\n"), (Tokens{{1, 0, 0, 0}, {5, 0, 1, 1}}));
  EXPECT_EQ(encode(json, "a"), (Tokens{{1, 0, 0, 0}, {0, 0, 1, 0}}));
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(encode(json, "\n"), (Tokens{{6, 0, 0, 0}, {1, 0, 0, 0}, {5, 0, 1, 1}}));
}

/// The name of a special token in a text gives the ids that it would have if the token had another
/// name. Hugging Face's encode_special_tokens lets each of these models find the token as a piece.
TEST(SpecialNames, OfATextAreNoPieces) {
  const auto tokens = [](const Json& model, const char* text) {
    const Json json = {{"added_tokens", {added("<s>", 4, special)}}, {"model", model}};
    EXPECT_EQ(encode(json, "<s>"), (Tokens{{4, 0, 3}}));
    return tokenizer_of(json)->encode_with_offsets(text, SpecialNames::text);
  };
  Json bpe = {{"type", "BPE"},
              {"vocab", {{"<", 0}, {"s", 1}, {">", 2}, {"<s", 3}, {"<s>", 4}, {"><s>", 5}}},
              {"merges", Json::parse(R"([["<", "s"], ["<s", ">"], [">", "<s>"]])")}};
  for (const bool ignores_merges : {false, true}) {
    bpe["ignore_merges"] = ignores_merges;
    EXPECT_EQ(tokens(bpe, "<s>"), (Tokens{{3, 0, 2}, {2, 2, 3}}));
    EXPECT_EQ(tokens(bpe, "s><s>s"),
              (Tokens{{1, 0, 1}, {2, 1, 2}, {3, 2, 4}, {2, 4, 5}, {1, 5, 6}}));
  }
  EXPECT_EQ(tokens({{"type", "WordPiece"},
                    {"vocab", {{"[UNK]", 0}, {"<", 1}, {"##s>", 2}, {"##s", 3}, {"<s>", 4}}}},
                   "<s>"),
            (Tokens{{1, 0, 1}, {2, 1, 3}}));
  const Json scores = Json::parse(R"([["<unk>", 0], ["<", -1], ["s", -1], [">", -1], ["<s>", 0]])");
  EXPECT_EQ(tokens({{"type", "Unigram"}, {"unk_id", 0}, {"vocab", scores}}, "<s>"),
            (Tokens{{1, 0, 1}, {2, 1, 2}, {3, 2, 3}}));
}

/// In BPE a special token of one character remains the piece of that character, from which others
/// are merged: CLIP's models use "!" for padding.
TEST(SpecialNames, OfOneCharacterStayPiecesOfBpe) {
  Json json = description({added("a", 0, special)});
  json["model"]["vocab"]["ab"] = 5;
  json["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  const auto tokenizer = tokenizer_of(json);
  EXPECT_EQ(tokenizer->encode("aba", SpecialNames::text), (std::vector<std::int32_t>{5, 0}));
  EXPECT_EQ(tokenizer->encode("aba", SpecialNames::tokens), (std::vector<std::int32_t>{0, 1, 0}));
}

/// A piece that ends in more spaces than the text has characters before its end keeps its offsets.
TEST(TrimmedOffsets, OfMoreSpacesThanCharacters) {
  Json json = description(Json::array());
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "b"}}}, {"content", "   "}};
  json["post_processor"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  json["model"]["vocab"].update(Json{{"  ", 5}, {"   ", 6}, {"a   ", 7}});
  json["model"]["merges"] =
      Json::array({Json::array({" ", " "}), Json::array({"  ", " "}), Json::array({"a", "   "})});
  EXPECT_EQ(encode(json, "ab"), (Tokens{{7, 0, 2}}));
  EXPECT_EQ(encode(json, "aab"), (Tokens{{0, 0, 1}, {7, 1, 1}}));
}

}  // namespace
}  // namespace nystrom
