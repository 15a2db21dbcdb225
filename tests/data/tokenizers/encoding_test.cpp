// Encodings with the places of their tokens.
#include "data/tokenizers/encoding.h"

#include <gtest/gtest.h>

#include "data/tokenizers/builtin_tokenizer.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/places.h"

namespace nystrom::testing {
namespace {

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(Encoding, CountsCharactersInsteadOfBytes) {
  const auto bytes = make_builtin_tokenizer(BuiltinTokenizer::bytes);
  const Encoding encoding = encode_with_places(*bytes, "a\u00e9b", /*special=*/true);
  EXPECT_EQ(encoding.ids, bytes->encode("a\u00e9b"));
  EXPECT_EQ(encoding.offsets, (Places{{0, 1}, {1, 2}, {1, 2}, {2, 3}}));
}

TEST(Encoding, PutsSpecialTokensAroundAText) {
  const auto tokenizer =
      open_tokenizer(source_folder() / "tests/fixtures/tokenizers/bert-base-uncased");
  const SpecialIds& special = tokenizer->special();
  const Encoding bare = encode_with_places(*tokenizer, "the sea", /*special=*/false);
  const Encoding encoding = encode_with_places(*tokenizer, "the sea", /*special=*/true);
  ASSERT_EQ(encoding.ids.size(), bare.ids.size() + 2);
  EXPECT_EQ(encoding.ids.front(), special.cls);
  EXPECT_EQ(encoding.ids.back(), special.sep);
  EXPECT_EQ(encoding.type_ids, std::vector<std::int32_t>(encoding.ids.size(), 0));
  Places around = {{0, 0}};
  around.insert(around.end(), bare.offsets.begin(), bare.offsets.end());
  around.emplace_back(0, 0);
  EXPECT_EQ(encoding.offsets, around);
  EXPECT_EQ(bare.offsets.front(), (std::pair<std::int64_t, std::int64_t>(0, 3)));
}

}  // namespace
}  // namespace nystrom::testing
