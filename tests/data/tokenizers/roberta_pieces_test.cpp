// sentencepiece.bpe.model of XLM-RoBERTa and CamemBERT: which class reads it, and models of
// neither. Ids and offsets are compared with transformers' in pipeline/golden_test.cpp.
#include "data/tokenizers/sentencepiece_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/tokenizers/tokenizer_folder.h"
#include "tests/data/tokenizers/sentencepiece_bytes.h"
#include "tests/support/fixtures.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened

namespace nystrom {
namespace {

namespace fs = std::filesystem;
using testing::piece;

const fs::path fixture = testing::fixture_folder() / "tokenizers/small/camembert";

std::string special_pieces() {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
}

class RobertaPieces : public FolderTest {
 protected:
  void use_fixture() { fs::copy(fixture / "sentencepiece.bpe.model", model_); }
  std::string error_of(const std::string& bytes) {
    write_bytes(model_, bytes);
    return error_in_dir([&] { open_tokenizer(folder_.path()); });
  }
  std::int32_t id_of_cls() const { return open_tokenizer(folder_.path())->special().cls; }

  fs::path model_ = folder_ / "sentencepiece.bpe.model";
};

TEST_F(RobertaPieces, TheClassComesFromTheFolder) {
  use_fixture();
  EXPECT_EQ(id_of_cls(), 0) << "XLM-RoBERTa's where nothing is said";
  write_bytes(folder_ / "config.json", R"({"model_type": "camembert"})");
  EXPECT_EQ(id_of_cls(), 5);
  write_bytes(folder_ / "tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  EXPECT_EQ(id_of_cls(), 0) << "the tokenizer's own file has the last word";
  write_bytes(folder_ / "tokenizer_config.json",
              R"({"tokenizer_class": "CamembertTokenizerFast"})");
  EXPECT_EQ(id_of_cls(), 5);
}

TEST_F(RobertaPieces, ItsFilesGiveTheSameTokens) {
  use_fixture();
  const auto tokenizer = open_tokenizer(folder_.path());
  const TemporaryFolder written;
  write_tokenizer(*tokenizer, written.path(), 64);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(fs::exists(written / name)) << name;
  const auto again = open_tokenizer(written.path());
  const std::vector<std::int32_t> seven{7}, eight{8};
  const std::string text = "The captain of the <mask> said Hello,  twice.";
  EXPECT_EQ(again->encode(text, SpecialNames::tokens),
            tokenizer->encode(text, SpecialNames::tokens));
  EXPECT_EQ(again->wrap(seven, eight).ids, tokenizer->wrap(seven, eight).ids);
}

TEST_F(RobertaPieces, ABpeModelIsRefused) {
  const std::string trainer = testing::bytes_field(2, testing::number_field(3, 2));
  EXPECT_EQ(
      error_of(special_pieces() + piece("a") + trainer),
      "DIR/sentencepiece.bpe.model: is a BPE model; XLM-RoBERTa and CamemBERT have unigram models");
}

TEST_F(RobertaPieces, APieceThatTransformersAddsIsRefused) {
  EXPECT_EQ(error_of(special_pieces() + piece("a") + piece("<mask>", 0, 4)),
            "DIR/sentencepiece.bpe.model: has a piece '<mask>', which transformers adds itself");
}

TEST_F(RobertaPieces, OtherSpecialPiecesAreAlbertsOrNone) {
  EXPECT_EQ(error_of(testing::small_model()), "no error");
  EXPECT_EQ(error_of(piece("<s>", 0, 3) + piece("<unk>", 0, 2) + piece("a")),
            "DIR/sentencepiece.bpe.model: the vocabulary has no piece '[CLS]'; expected [CLS], "
            "[SEP], <pad> and [MASK], as ALBERT's has");
}

TEST_F(RobertaPieces, WordsThatEndInNotusedAreText) {
  write_bytes(model_, special_pieces() + piece("\xE2\x96\x81NOTUSED"));
  for (const char* its_class : {"XLMRobertaTokenizer", "CamembertTokenizer"}) {
    write_bytes(folder_ / "tokenizer_config.json",
                fmt::format(R"({{"tokenizer_class": "{}"}})", its_class));
    const auto tokenizer = open_tokenizer(folder_.path());
    const std::int32_t id = tokenizer->find("\xE2\x96\x81NOTUSED").value();
    const std::vector<std::int32_t> ids{id};
    EXPECT_EQ(tokenizer->encode("NOTUSED"), ids) << its_class;
    EXPECT_EQ(tokenizer->decode(ids), "NOTUSED") << its_class;
  }
}

/// SentencePiece puts these pieces first by default, and models of other names have its ids.
TEST_F(RobertaPieces, OtherNamesAreAlbertsOrNone) {
  model_ = folder_ / "spiece.model";
  EXPECT_EQ(error_of(special_pieces() + piece("a")),
            "DIR/spiece.model: the vocabulary has no piece '[CLS]'; expected [CLS], [SEP], <pad> "
            "and [MASK], as ALBERT's has");
  EXPECT_EQ(error_of(special_pieces() + piece("[CLS]", 0, 3) + piece("[SEP]", 0, 3) +
                     piece("<pad>", 0, 3) + piece("[MASK]", 0, 3) + piece("a")),
            "no error");
  EXPECT_EQ(id_of_cls(), 3);
}

TEST(Base64, PadsTheEnd) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("ab"), "YWI=");
  EXPECT_EQ(base64("abc"), "YWJj");
}

}  // namespace
}  // namespace nystrom
