// The files written for Hugging Face's tokenizers. tests/reference/check_tokenizer.py checks that
// they give the same ids.
#include "data/tokenizers/sentencepiece_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "tests/data/tokenizers/sentencepiece_bytes.h"
#include "tests/support/fixtures.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened

namespace nystrom {
namespace {

using Json = nlohmann::json;

std::string albert_json(const std::string& bytes, const AlbertOptions& options = {}) {
  return albert_tokenizer_json(scan_sentencepiece(bytes, "m"), options, "m");
}

Json json_of(const std::string& model, const AlbertOptions& options = {}) {
  return Json::parse(albert_json(model, options));
}

std::vector<std::string> normalizer_types(const Json& file) {
  std::vector<std::string> types;
  for (const auto& each : file["normalizer"]["normalizers"]) types.push_back(each["type"]);
  return types;
}

TEST(SentencePieceJson, Unigram) {
  const Json file = json_of(testing::small_model() + testing::piece("(", 0, 4));
  const Json& model = file["model"];
  EXPECT_EQ(model["type"], "Unigram");
  EXPECT_EQ(model["unk_id"], 1);
  EXPECT_EQ(model["vocab"][12], Json::array({"\xE2\x96\x81"
                                             "ab",
                                             -2.0}));
  EXPECT_EQ(model["vocab"][14], Json::array({"2,", -101.0}));  // a comma joined to a digit
  EXPECT_EQ(model["vocab"][15][1], -0.1);  // the library's score for user-defined pieces
}

TEST(SentencePieceJson, MergesOfBpe) {
  const std::string bytes =
      testing::small_model() + testing::bytes_field(2, testing::number_field(3, 2));
  EXPECT_EQ(input_error([&] { albert_json(bytes); }),
            "m: is a BPE model, and ALBERT's are unigram models; save it as tokenizer.json once: "
            "AutoTokenizer.from_pretrained(…).save_pretrained(…)");
  const Json model =
      Json::parse(trained_tokenizer_json(scan_sentencepiece(bytes, "m"), {}))["model"];
  EXPECT_EQ(model["type"], "BPE");
  EXPECT_EQ(model["vocab"]["bc"], 13);
  EXPECT_EQ(model["unk_token"], "<unk>");
  // The best score comes first. ▁ab could only come from parts that are pieces, and there are none.
  // BPE has no penalty for commas.
  EXPECT_EQ(model["merges"], Json::array({Json::array({"2", ","}), Json::array({"b", "c"})}));
}

/// The library makes neither control pieces nor unused ones of a text.
TEST(SentencePieceJson, ControlAndUnusedPieces) {
  using testing::piece;
  const std::string small = testing::small_model();
  const auto tokenizer = tokenizer_of_json(albert_json(small + piece("<ab>", 0, 3)));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{15}), "");
  EXPECT_EQ(tokenizer->encode("<ab>", SpecialNames::tokens), (std::vector<std::int32_t>{15}));
  EXPECT_EQ(tokenizer->encode("<ab>"), (std::vector<std::int32_t>{5, 1, 6, 7, 1}));
  EXPECT_EQ(input_error([&] { albert_json(small + piece("ab", -1, 5)); }),
            "m: the piece 'ab' is marked as unused, and Hugging Face's tokenizers would use it; "
            "expected a model without such pieces");
}

/// A normal piece starts with the user-defined one and has a better score than its parts. The
/// library prefers the user-defined piece.
TEST(SentencePieceJson, UserDefinedPieces) {
  using testing::piece;
  const std::string bytes = testing::small_model() + piece("(", 0, 4) + piece("(a", -4.5) +
                            piece("<x>", 0, 4) + piece("x", -4) + piece("a)", -3.5) +
                            piece(")", -4) + piece("ab", -2.5) + piece("\xF0\x90\x8D\x88", 0, 4);
  EXPECT_EQ(tokenizer_of_json(albert_json(bytes))->encode("ab(a"),
            (std::vector<std::int32_t>{12, 15, 6}));
}

TEST(SentencePieceJson, UserDefinedPiecesThatCannotBeWritten) {
  using testing::bytes_field;
  const std::string charsmap = testing::charsmap(testing::one_key_trie(), std::string("a\0", 2));
  const std::string bytes =
      testing::small_model() + testing::piece("A", 0, 4) + bytes_field(3, bytes_field(2, charsmap));
  EXPECT_EQ(input_error([&] {
              albert_json(bytes, {false, true});
            }),
            "m: the user-defined piece 'A' becomes 'a' in normal text, where Hugging Face's "
            "tokenizers miss it");
}

TEST(SentencePieceJson, Normalizers) {
  using Types = std::vector<std::string>;
  const std::string plain = testing::small_model();
  EXPECT_EQ(normalizer_types(json_of(plain)),
            (Types{"Replace", "Strip", "Replace", "Replace", "NFKD", "Replace", "Lowercase",
                   "Replace", "Strip"}));
  EXPECT_EQ(normalizer_types(json_of(plain, {false, true})),
            (Types{"Replace", "Strip", "Replace", "Replace", "Replace", "Strip"}));
  const Json file =
      json_of(read_bytes(testing::fixture_folder() / "tokenizers/albert/spiece.model"));
  EXPECT_EQ(normalizer_types(file),
            (Types{"Replace", "Strip", "Replace", "Replace", "NFKD", "Replace", "Lowercase", "NFC",
                   "Precompiled", "Replace", "Strip"}));
  const Json& steps = file["normalizer"]["normalizers"];
  EXPECT_EQ(
      steps[0]["pattern"]["Regex"],
      "[\\x{9}-\\x{D}\\x{1C}-\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}-\\x{2029}"
      "\\x{202F}\\x{205F}\\x{2581}\\x{3000}]+");
  EXPECT_EQ(steps[5]["pattern"]["Regex"].get<std::string>().substr(0, 30),
            "[\\x{300}-\\x{34E}\\x{350}-\\x{36F");
  EXPECT_EQ(steps[8]["precompiled_charsmap"].get<std::string>().size(), (237539u + 2) / 3 * 4);
  EXPECT_EQ(steps[8]["precompiled_charsmap"].get<std::string>().substr(0, 16), "ALQCAACEAAAAAACA");
}

/// A character with its marks is one: the key is a part of it, and its replacement that of all.
TEST(Precompiled, ReplacesAGraphemeByItsShortestKey) {
  const std::string charsmap = testing::charsmap(testing::one_key_trie(), std::string("a\0", 2));
  const Json file =
      json_of(testing::small_model() + testing::bytes_field(3, testing::bytes_field(2, charsmap)));
  for (const Json& step : file["normalizer"]["normalizers"]) {
    if (step["type"] != "Precompiled") continue;
    AlignedText text("A\xCC\x81-A-\xCC\x81");
    precompiled_normalizer(step["precompiled_charsmap"].get<std::string>(), "m")(text);
    EXPECT_EQ(text.text(), "a-a-\xCC\x81");
    return;
  }
  FAIL() << "there is no charsmap";
}

std::string normalized(const TrainedNormalizer& options, const std::string& text) {
  AlignedText aligned(text);
  trained_normalizer(options)(aligned);
  return aligned.text();
}

/// Marks make words in most scripts. The text becomes NFKC.
TEST(TrainedNormalizer, KeepsMarks) {
  for (const char* text : {"schön", "Müller", "パンダ", "ハンダ", "má mà mả mã mạ", "ที่นี่", "हिन्दी",
                           "שָׁלוֹם", "Ελλάδα", "안녕"})
    EXPECT_EQ(normalized({false, false}, text), text);
  EXPECT_EQ(normalized({}, "SCHÖN"), "schön");
  EXPECT_EQ(normalized({}, "scho\xCC\x88n"), "schön") << "decomposed text is composed";
  EXPECT_EQ(normalized({}, "e\xCC\x82\xCC\xA3"), "ệ") << "in any order of marks";
  EXPECT_EQ(normalized({}, "ﾊﾟﾝﾀﾞ ＡＢ ﬁ ½"), "パンダ ab fi 1⁄2");
  EXPECT_EQ(normalized({}, "می\xE2\x80\x8Cخواهم"), "می\xE2\x80\x8Cخواهم") << "joiners stay";
  EXPECT_EQ(normalized({},
                       "½\xE2\x80\x8C"
                       "Ǆ"),
            "1⁄2\xE2\x80\x8C"
            "dž");
}

TEST(TrainedNormalizer, StripsMarksWhenToldTo) {
  const TrainedNormalizer options{true, true};
  EXPECT_EQ(normalized(options, "Schön"), "schon");
  EXPECT_EQ(normalized(options, "パンダ"), "ハンタ");
  EXPECT_EQ(normalized(options, "안녕"), "안녕") << "syllables are composed again";
}

TEST(TrainedNormalizer, JoinsSpacesAndDropsControls) {
  EXPECT_EQ(normalized({},
                       " \xC2\xA0 a\t\n b\xE3\x80\x80"
                       "c "),
            "a b c");
  EXPECT_EQ(normalized({}, "ก\xE2\x80\x8Bข"), "ก ข");
  EXPECT_EQ(normalized({},
                       "a\x01"
                       "\xC2\xAD\xE2\x80\x8E"
                       "b\xEF\xBB\xBF"),
            "ab");
  EXPECT_EQ(normalized({}, "``a''"), "\"a\"");
}

}  // namespace
}  // namespace nystrom
