// The built-in vocabularies.
#include "data/tokenizers/builtin_tokenizer.h"

#include <gtest/gtest.h>

#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> bytes() { return make_builtin_tokenizer(BuiltinTokenizer::bytes); }
std::unique_ptr<Tokenizer> listops() { return make_builtin_tokenizer(BuiltinTokenizer::listops); }

TEST(BuiltinTokenizer, BytesAreOneMoreThanTheirValue) {
  const auto tokenizer = bytes();
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->encode("A b\n\xC3\xA9"), (Ids{66, 33, 99, 11, 0xC3 + 1, 0xA9 + 1}));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("A b\n\xC3\xA9")), "A b\n\xC3\xA9");
  EXPECT_EQ(tokenizer->special().pad, 0);
  EXPECT_EQ(tokenizer->special().mask, 257);
  for (const std::int32_t id :
       {tokenizer->special().cls, tokenizer->special().sep, tokenizer->special().unk})
    EXPECT_EQ(id, no_id);
}

TEST(BuiltinTokenizer, EveryByteOfALongTextIsATokenInItsPlace) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(' ' + i % 95);
  const std::vector<Token> tokens = bytes()->encode_with_offsets(text);
  ASSERT_EQ(tokens.size(), text.size());
  for (std::uint32_t i = 0; i < tokens.size(); ++i)
    EXPECT_EQ(tokens[i], (Token{text[i] + 1, i, i + 1}));
}

TEST(BuiltinTokenizer, NamesOfSpecialTokensInATextAreBytes) {
  EXPECT_EQ(bytes()->encode("[PAD]").size(), 5);
}

TEST(BuiltinTokenizer, ListOpsHasAnIdForEachSymbol) {
  const auto tokenizer = listops();
  EXPECT_EQ(tokenizer->vocab_size(), 20);
  EXPECT_EQ(tokenizer->encode("( ( ( ( [MIN 0 ) 9 ) [MAX ) ] )"), (Ids{13, 2, 11, 14, 12}));
  EXPECT_EQ(tokenizer->encode("[MED [SM [FIRST [LAST"), (Ids{15, 16, 17, 18}));
  EXPECT_EQ(tokenizer->encode("12 [MEAN 3]"), (Ids{1, 1, 1}));
  EXPECT_EQ(tokenizer->special().unk, 1);
  EXPECT_EQ(tokenizer->special().mask, 19);
}

TEST(BuiltinTokenizer, AddsNoTokens) {
  const Ids first{5, 6}, second{7};
  EXPECT_EQ(listops()->wrap(first).ids, first);
  EXPECT_EQ(bytes()->wrap(first, second).ids, (Ids{5, 6, 7}));
  EXPECT_EQ(bytes()->wrap(first, second).type_ids, (Ids{0, 0, 1}));
}

TEST(BuiltinTokenizer, ItsFilesAreTheTokenizer) {
  for (const auto& entry : enum_names(BuiltinTokenizer{})) {
    const TemporaryFolder folder;
    const auto tokenizer = make_builtin_tokenizer(entry.value);
    write_tokenizer(*tokenizer, folder.path(), 64);
    const auto read = open_tokenizer(folder.path());
    EXPECT_EQ(read->encode("[MIN 3 4 ] é"), tokenizer->encode("[MIN 3 4 ] é")) << entry.name;
    EXPECT_EQ(read->special().pad, 0) << entry.name;
    EXPECT_EQ(read->special().unk, tokenizer->special().unk) << entry.name;
  }
}

TEST(ByteIds, AreThoseOfTheByteTokenizer) {
  const std::vector<std::uint8_t> pixels{0, 1, 255};
  EXPECT_EQ(byte_ids(*bytes(), pixels), (Ids{1, 2, 256}));
  EXPECT_EQ(input_error([&] { byte_ids(*listops(), pixels); }),
            "images are read as bytes, one a pixel, and the tokenizer is another; set "
            "tokenizer.builtin: bytes");
}

}  // namespace
}  // namespace nystrom
