// The hand-written word scanners.
#include "data/tokenizers/pipeline/word_scanners.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/utf8.h"
#include "data/tokenizers/pipeline/pattern.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

/// The scanned words equal the matches of the expression.
TEST(WordScanners, AsTheRegularExpressions) {
  const char* parts[] = {"a",  "Bc",  "\xC3\xA9", " ",    "  ",           "\n",
                         "\r", "\t ", "\xC2\xA0", "1",    "\xE3\x80\x80", "23",
                         "'",  "'s",  "'ll",      "'v",   "\xC2\xBD",     "!",
                         "'S", "'rE", "'LL",      "'VeR", "'\xC5\xBF",    "\xF0\x9F\x99\x82",
                         "'M", "'D",  "'lT",      "/",    "\xCC\x81",     "\xC2\x85"};
  for (const std::string_view expression : {gpt2_expression, llama3_expression, qwen_expression}) {
    const WordScanner scanner = find_word_scanner(expression);
    ASSERT_NE(scanner, nullptr);
    const Pattern pattern(expression, "p");
    std::uint32_t state = 1;
    for (int i = 0; i < 5000; ++i) {
      std::string text;
      for (int k = 0; k < 8; ++k) {
        state = state * 1664525 + 1013904223;
        text += parts[(state >> 16) % std::size(parts)];
      }
      std::vector<ByteRange> words;
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = scanner(text, begin);
        words.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
        begin = end;
      }
      ASSERT_EQ(words, pattern.find_all(text)) << text;
    }
  }
  EXPECT_EQ(find_word_scanner("\\s+"), nullptr);
}

/// Scanners and expressions classify every character equally. Characters that only one of the
/// Unicode versions of utf8proc and Oniguruma has are excluded.
TEST(WordScanners, EveryCharacterIsOfTheSameKind) {
  std::string all;
  std::vector<char32_t> characters;
  std::vector<std::size_t> places;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    characters.push_back(c);
    places.push_back(all.size());
    append_utf8(all, c);
  }
  const auto members = [&](const std::string& expression) {
    std::vector<bool> found(characters.size());
    for (const ByteRange& range : Pattern(expression, "p").find_all(all)) {
      const auto at = std::lower_bound(places.begin(), places.end(), range.begin);
      found[static_cast<std::size_t>(at - places.begin())] = true;
    }
    return found;
  };
  const auto letters = members("\\p{L}"), numbers = members("\\p{N}"), spaces = members("\\s"),
             unassigned = members("\\p{Cn}");
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const char32_t c = characters[i];
    if (unassigned[i] || category_bit_of(c) == category_bit(UTF8PROC_CATEGORY_CN)) continue;
    ASSERT_EQ(letters[i], is_letter(c)) << static_cast<std::uint32_t>(c);
    ASSERT_EQ(numbers[i], is_number(c)) << static_cast<std::uint32_t>(c);
    ASSERT_EQ(spaces[i], is_white_space(c)) << static_cast<std::uint32_t>(c);
  }
}

}  // namespace
}  // namespace nystrom
