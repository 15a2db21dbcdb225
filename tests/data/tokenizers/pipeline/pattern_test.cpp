// Regular expressions of tokenizers.
#include "data/tokenizers/pipeline/pattern.h"

#include <gtest/gtest.h>

#include "data/tokenizers/pipeline/pre_tokenizers.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Strings = std::vector<std::string>;

Strings matches(const std::string& expression, const std::string& text) {
  Strings found;
  for (const ByteRange& range : Pattern(expression, "p").find_all(text))
    found.push_back(text.substr(range.begin, range.size()));
  return found;
}

TEST(Pattern, Sets) {
  EXPECT_EQ(matches("[a-c\\d]", "abz1\xD9\xA1"), (Strings{"a", "b", "1", "\xD9\xA1"}));
  EXPECT_EQ(matches("[^a-c]", "abz\xC3\xA9"), (Strings{"z", "\xC3\xA9"}));
  EXPECT_EQ(matches("[]a-]", "]-b"), (Strings{"]", "-"}));
  EXPECT_EQ(matches("[(a[bc]|]", "c|("), (Strings{"c", "|", "("}));
  EXPECT_EQ(matches("\\p{Lu}\\P{L}\\p{^N}", "A1bB22"), (Strings{"A1b"}));
  EXPECT_EQ(matches("\\s\\S|\\w\\W", " a.b "), (Strings{" a", "b "}));
  EXPECT_EQ(matches("\\x{E9}|\\u00e8|\\x41|\\n",
                    "\xC3\xA9\xC3\xA8"
                    "A\n"),
            (Strings{"\xC3\xA9", "\xC3\xA8", "A", "\n"}));
  EXPECT_EQ(matches(".", "a\nb"), (Strings{"a", "b"}));
}

TEST(Pattern, Repetitions) {
  EXPECT_EQ(matches("a+", "aabaaa"), (Strings{"aa", "aaa"}));
  EXPECT_EQ(matches("a{2}", "aaaaa"), (Strings{"aa", "aa"}));
  EXPECT_EQ(matches("a{2,3}b?", "aaaaab"), (Strings{"aaa", "aab"}));
  EXPECT_EQ(matches("a{,2}b", "aaab"), (Strings{"aab"}));
  EXPECT_EQ(matches("a{x", "a{x"), (Strings{"a{x"}));
  EXPECT_EQ(matches("a+?b*?c", "aabbc"), (Strings{"aabbc"}));
  EXPECT_EQ(matches("(?:ab){1,2}", "ababab"), (Strings{"abab", "ab"}));
  EXPECT_EQ(matches("(?:ab|c)+d", "abcabd"), (Strings{"abcabd"}));
  EXPECT_EQ(matches("(?:ab)*?c", "ababc"), (Strings{"ababc"}));
  EXPECT_EQ(matches("a++a|b", "aab"), (Strings{"b"}));
  EXPECT_EQ(matches("(?>a|ab)c", "abc"), (Strings{}));
  EXPECT_EQ(matches("x*", "ab"), (Strings{"", "", ""}));
}

TEST(Pattern, AlternativesTakeTheFirst) {
  EXPECT_EQ(matches("a|ab", "ab"), (Strings{"a"}));
  EXPECT_EQ(matches("(ab|a)(c|bc)", "abc"), (Strings{"abc"}));
  EXPECT_EQ(matches("a||b", "b"), (Strings{"", ""}));
}

TEST(Pattern, PlacesAndCase) {
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a   b  "), (Strings{"  ", " ", "  "}));
  EXPECT_EQ(matches("a(?=b)", "abac"), (Strings{"a"}));
  EXPECT_EQ(matches("(?<=a)b|(?<!a)c", "abacc"), (Strings{"b", "c"}));
  EXPECT_EQ(matches("^a|b$", "ab\nab"), (Strings{"a", "b", "a", "b"}));
  EXPECT_EQ(matches("\\Aa|b\\z", "ab\nab"), (Strings{"a", "b"}));
  EXPECT_EQ(matches("\\ba|a\\B", "aa a"), (Strings{"a", "a"}));
  EXPECT_EQ(matches("(?i:'S|x)y", "'sy Xy xY"), (Strings{"'sy", "Xy"}));
  EXPECT_EQ(matches("(?i)[k]\xC3\x89", "\xE2\x84\xAA\xC3\xA9"), (Strings{"\xE2\x84\xAA\xC3\xA9"}));
}

TEST(Pattern, Errors) {
  const auto error = [](const std::string& expression) {
    return input_error([&] { Pattern(expression, "f: p"); });
  };
  const auto message = [](const std::string& expression, const std::string& what, int place) {
    return "f: p: the regular expression '" + expression + "' holds " + what + " near byte " +
           std::to_string(place) + ", which is not supported";
  };
  EXPECT_EQ(error("(a"), message("(a", "a group that is not closed", 2));
  EXPECT_EQ(error("a)"), message("a)", "an unmatched )", 1));
  EXPECT_EQ(error("*a"), message("*a", "a repetition of nothing", 1));
  EXPECT_EQ(error("(?<n>a)"), message("(?<n>a)", "a group of a kind that is not known", 2));
  EXPECT_EQ(error("\\p{Han}"),
            message("\\p{Han}", "a property of characters that is not known", 3));
  EXPECT_EQ(error("\\1"), message("\\1", "an escape that is not known", 2));
  EXPECT_EQ(error("[a"), message("[a", "an end too early", 2));
  EXPECT_EQ(error("[b-a]"), message("[b-a]", "a range that is the wrong way round", 4));
  EXPECT_EQ(error("[a&&b]"), message("[a&&b]", "an intersection of sets", 4));
  EXPECT_EQ(error("(a*)*"), message("(a*)*", "a repetition of what may be empty", 5));
  EXPECT_EQ(error("a{2,1}"),
            message("a{2,1}", "a repetition whose bounds are the wrong way round", 6));
  EXPECT_EQ(error("a{5000}"), message("a{5000}", "too many repetitions", 6));
  EXPECT_EQ(error("(?:(?:(?:a{1,9}b){999}){999}"),
            message("(?:(?:(?:a{1,9}b){999}){999}", "too many repetitions", 28));
  EXPECT_EQ(error("(?<=ab)c"),
            message("(?<=ab)c", "a look behind over more than one character", 7));
  EXPECT_EQ(error(std::string(60, '(')),
            message(std::string(60, '('), "too many nested groups", 50));
  EXPECT_EQ(error("\\x{110000}"), message("\\x{110000}", "a character beyond U+10FFFF", 9));
}

TEST(Pattern, GivesUpWhereItWouldTakeForEver) {
  const Pattern slow("(?:a|aa)+(?:a|aa)+(?:a|aa)+b", "f: p");
  EXPECT_EQ(input_error([&] { slow.find_all(std::string(200, 'a')); }),
            "f: p: the regular expression takes too long");
}

/// The scanner gives what the expression gives.
TEST(Gpt2Words, AsTheRegularExpression) {
  const std::string expression =
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  const char* parts[] = {
      "a",        "Bc", "\xC3\xA9", " ",   "  ", "\n", "\xC2\xA0",         "\xE3\x80\x80", "1",
      "\xC2\xBD", "'",  "'s",       "'ll", "'v", "!",  "\xF0\x9F\x99\x82", "\xCC\x81",     "\t "};
  std::uint32_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int k = 0; k < 8; ++k) {
      state = state * 1664525 + 1013904223;
      text += parts[(state >> 16) % std::size(parts)];
    }
    Strings words;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = end_of_gpt2_word(text, begin);
      words.push_back(text.substr(begin, end - begin));
      begin = end;
    }
    ASSERT_EQ(words, matches(expression, text)) << text;
  }
}

}  // namespace
}  // namespace nystrom
