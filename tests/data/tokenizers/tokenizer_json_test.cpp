// The files written for Hugging Face's tokenizers. tests/reference/check_tokenizer.py checks that
// they give the same ids.
#include "data/tokenizers/tokenizer_json.h"

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

Json json_of(const std::string& model, const NormalizerOptions& options = {}) {
  return Json::parse(tokenizer_json(SentencePieceTokenizer::parse(model, "m", options)));
}

std::vector<std::string> normalizer_types(const Json& file) {
  std::vector<std::string> types;
  for (const auto& each : file["normalizer"]["normalizers"]) types.push_back(each["type"]);
  return types;
}

TEST(TokenizerJson, Unigram) {
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

TEST(TokenizerJson, MergesOfBpe) {
  std::string bytes = testing::small_model() + testing::bytes_field(2, testing::number_field(3, 2));
  const Json model = json_of(bytes)["model"];
  EXPECT_EQ(model["type"], "BPE");
  EXPECT_EQ(model["vocab"]["bc"], 13);
  EXPECT_EQ(model["unk_token"], "<unk>");
  // The best score comes first. ▁ab could only come from parts that are pieces, and there are none.
  // BPE has no penalty for commas.
  EXPECT_EQ(model["merges"], Json::array({Json::array({"2", ","}), Json::array({"b", "c"})}));
}

/// A normal piece starts with the user-defined one and has a better score than its parts. The
/// library prefers the user-defined piece.
TEST(TokenizerJson, UserDefinedPieces) {
  using testing::piece;
  for (const int kind : {1, 2}) {
    const std::string bytes =
        testing::small_model() + piece("(", 0, 4) + piece("(a", -4.5) + piece("<x>", 0, 4) +
        piece("x", -4) + piece("a)", -3.5) + piece(")", -4) + piece("ab", -2.5) +
        piece("\xF0\x90\x8D\x88", 0, 4) +
        testing::bytes_field(2, testing::number_field(3, static_cast<std::uint64_t>(kind)));
    const auto model = SentencePieceTokenizer::parse(bytes, "m");
    const PipelineTokenizer written(parse_tokenizer_json(tokenizer_json(model), "tokenizer.json"));
    for (const char* text :
         {"(a", "ab(abc", "a<x>bc", "<x>", "(<x>(bc (", "x <x", "a) (a)", "a\xF0\x90\x8D\x88<x>"})
      EXPECT_EQ(written.encode(text), model.encode(text)) << text;
    EXPECT_EQ(model.encode("ab(a"), (std::vector<std::int32_t>{12, 15, 6})) << kind;
  }
}

TEST(TokenizerJson, UserDefinedPiecesThatCannotBeWritten) {
  using testing::bytes_field;
  using testing::piece;
  const auto error = [](const std::string& bytes) {
    return input_error([&] { SentencePieceTokenizer::parse(bytes, "m", {false, true}); });
  };
  const std::string bpe = bytes_field(2, testing::number_field(3, 2)),
                    small = testing::small_model();
  EXPECT_EQ(error(small + piece("<x>", 0, 4) + piece("ab", -3) + piece("acb", -5) + bpe),
            "m: merging makes 3 pieces of 'acb', which is one itself; beside a user-defined piece "
            "of several characters, '<x>', Hugging "
            "Face's form of the model would give other ids");
  const std::string charsmap = testing::charsmap(testing::one_key_trie(), std::string("a\0", 2));
  EXPECT_EQ(error(small + piece("A", 0, 4) + bytes_field(3, bytes_field(2, charsmap))),
            "m: the user-defined piece 'A' becomes 'a' in normal text, where Hugging Face's "
            "tokenizers miss it");
}

TEST(TokenizerJson, Normalizers) {
  using Types = std::vector<std::string>;
  const std::string plain = testing::small_model();
  EXPECT_EQ(normalizer_types(json_of(plain)),
            (Types{"Replace", "Strip", "Replace", "Replace", "NFKD", "Replace", "Lowercase",
                   "Replace", "Strip"}));
  EXPECT_EQ(normalizer_types(json_of(plain, {false, true})),
            (Types{"Replace", "Strip", "Replace", "Replace", "Replace", "Strip"}));
  const auto albert =
      SentencePieceTokenizer::open(testing::fixture_folder() / "tokenizers/albert/spiece.model");
  const Json file = Json::parse(tokenizer_json(albert));
  EXPECT_EQ(normalizer_types(file),
            (Types{"Replace", "Strip", "Replace", "Replace", "NFKD", "Replace", "Lowercase", "NFC",
                   "Precompiled", "Replace", "Strip"}));
  const Json& steps = file["normalizer"]["normalizers"];
  EXPECT_EQ(steps[0]["pattern"]["Regex"].get<std::string>().substr(0, 30),
            "[\\x{9}-\\x{D}\\x{1C}-\\x{20}\\x{85");
  EXPECT_EQ(steps[5]["pattern"]["Regex"].get<std::string>().substr(0, 30),
            "[\\x{300}-\\x{34E}\\x{350}-\\x{36F");
  EXPECT_EQ(steps[8]["precompiled_charsmap"].get<std::string>().size(), (237539u + 2) / 3 * 4);
  EXPECT_EQ(steps[8]["precompiled_charsmap"].get<std::string>().substr(0, 16), "ALQCAACEAAAAAACA");
}

TEST(TokenizerJson, Folder) {
  const TemporaryFolder folder;
  const auto tokenizer = SentencePieceTokenizer::parse(testing::small_model(), "m", {false, true});
  write_tokenizer(tokenizer, folder.path(), 128);
  EXPECT_EQ(read_bytes(folder / "spiece.model"), testing::small_model());
  EXPECT_EQ(read_bytes(folder / "tokenizer.json"), tokenizer_json(tokenizer));
  const Json config = read_json_file(folder / "tokenizer_config.json");
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["model_input_names"].size(), 3U) << "token_type_ids in transformers 5 too";
  EXPECT_EQ(config["model_max_length"], 128);
  EXPECT_EQ(config["do_lower_case"], false);
  EXPECT_EQ(config["added_tokens_decoder"]["4"]["content"], "[MASK]");
  EXPECT_EQ(config["added_tokens_decoder"]["4"]["lstrip"], true);
  EXPECT_EQ(read_json_file(folder / "special_tokens_map.json")["cls_token"], "[CLS]");
  const auto again = SentencePieceTokenizer::open_folder(folder.path());
  EXPECT_EQ(again.options(), tokenizer.options());
  EXPECT_EQ(again.encode("ab bc"), tokenizer.encode("ab bc"));
}

}  // namespace
}  // namespace nystrom
