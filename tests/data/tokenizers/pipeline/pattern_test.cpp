// Regular expressions of tokenizers.
#include "data/tokenizers/pipeline/pattern.h"

#include <gtest/gtest.h>

#include <thread>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/pre_tokenizers.h"
#include "tests/support/fixtures.h"
#include "tests/support/sanitized.h"
#include "tests/support/says.h"
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

/// [:punct:] holds symbols in a class, as in newer versions of Oniguruma. Alone it is a class of
/// these characters.
TEST(Pattern, PunctuationOfPosix) {
  const std::string text = "p:$x";
  EXPECT_EQ(matches("[[:punct:]]", text), (Strings{":", "$"}));
  EXPECT_EQ(matches("[[:^punct:]]", text), (Strings{"p", "x"}));
  EXPECT_EQ(matches("[][:punct:]]", text), (Strings{":", "$"}));
  EXPECT_EQ(matches("[[:alpha:][:punct:]]+", text), (Strings{"p:$x"}));
  EXPECT_EQ(matches("[[:punct:]&&[^$]]", text), (Strings{":"}));
  EXPECT_EQ(matches("[:punct:]", text), (Strings{"p", ":"}));
  EXPECT_EQ(matches("[:^punct:]", "^" + text), (Strings{"^", "p", ":"}));
  EXPECT_EQ(matches("[[:alpha:]][:punct:]", text), (Strings{"p:"}));
  EXPECT_EQ(matches("[\\[:punct:]", "[" + text), (Strings{"[", "p", ":"}));
  EXPECT_EQ(matches("\\[[:punct:]", "[" + text), (Strings{"[p"}));
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

TEST(Pattern, LineEndsRepeat) {
  EXPECT_EQ(matches("\\R+", "a\n\n\nb\r\nc"), (Strings{"\n\n\n", "\r\n"}));
  EXPECT_EQ(matches("\\s*\\R+|[a-z]+\\R*", " \n\nab\n\n"), (Strings{" \n\n", "ab\n\n"}));
  EXPECT_EQ(matches("(?<=\\R)a", "a\na\r\na"), (Strings{"a"}));  // behind \r\n, as there
  EXPECT_EQ(matches("\\\\R", "\\R"), (Strings{"\\R"}));
  EXPECT_EQ(matches("(?x)a # [ it\n\\R+", "a\n\nb"), (Strings{"a\n\n"}));
  EXPECT_EQ(matches("(?x: # (?(\n)\\R+#", "a\n\n#"), (Strings{"\n\n#"}));
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

/// Returns `text` with each match replaced by "|", also empty matches.
std::string replaced(const std::string& expression, const std::string& text) {
  std::string made;
  std::size_t done = 0;
  for (const ByteRange& range : Pattern(expression, "p").find_all(text)) {
    made.append(text, done, range.begin - done).append("|");
    done = range.end;
  }
  return made.append(text, done);
}

/// The matches equal those of Hugging Face's tokenizers: empty matches, \w and \b, scripts, && and
/// more.
TEST(Pattern, AsHuggingFaces) {
  const nlohmann::json golden =
      read_json_file(testing::fixture_folder() / "tokenizers/patterns.json");
  EXPECT_GE(golden["cases"].size(), 70u);
  for (const auto& each : golden["cases"]) {
    const auto expression = each["expression"].get<std::string>();
    const auto text = each["text"].get<std::string>();
    Strings found = matches(expression, text);
    std::erase(found, "");
    EXPECT_EQ(found, each["matches"].get<Strings>()) << expression << " in " << text;
    EXPECT_EQ(replaced(expression, text), each["replaced"].get<std::string>())
        << expression << " in " << text;
  }
}

std::string construction_error(const std::string& expression) {
  return input_error([&] { Pattern(expression, "f: p"); });
}

TEST(Pattern, InvalidAsInHuggingFaces) {
  const nlohmann::json golden =
      read_json_file(testing::fixture_folder() / "tokenizers/patterns.json");
  for (const auto& each : golden["invalid"]) {
    const auto expression = each["expression"].get<std::string>();
    EXPECT_EQ(construction_error(expression),
              "f: p: the regular expression '" + expression +
                  "' is invalid: " + each["message"].get<std::string>());
  }
}

std::string nested(int levels, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += 'a';
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

TEST(Pattern, LimitsOfExpressions) {
  EXPECT_EQ(construction_error(std::string(1'000'001, 'a')),
            "f: p: the regular expression has 1000001 bytes, expected at most 1000000");
  // Oniguruma reallocates a growing text often, and the address sanitizer copies it each time.
  const std::size_t longest = testing::sanitized ? 10'000 : 1'000'000;
  EXPECT_EQ(construction_error(std::string(longest, 'a')), "no error");
  EXPECT_EQ(construction_error(nested(4, "(?=", ")b")),
            "f: p: the regular expression '(?=(?=(?=(?=a)b)b)b)b' has 4 look-arounds one inside "
            "another, expected at most 3");
  EXPECT_EQ(construction_error("[(?=(?=](?=(?=(?!a)))\\((?=a)"), "no error");
  EXPECT_EQ(construction_error("(a)?(?(1)b|c)"),
            "f: p: the regular expression '(a)?(?(1)b|c)' has a condition, (?(…)…), which versions "
            "of Oniguruma match differently; write its branches as (?:…|…)");
  EXPECT_EQ(construction_error(nested(100, "(?:", "b)")), "no error");
  EXPECT_EQ(construction_error(nested(300, "(", ")")), "f: p: the regular expression '" +
                                                           printable(nested(300, "(", ")")) +
                                                           "' is invalid: parse depth limit over");
  std::string calls = "(?<n>a)";
  for (int i = 0; i < 20; ++i) calls += "\\g<n>";
  EXPECT_EQ(construction_error(calls + "\\\\g"), "no error");
  EXPECT_EQ(construction_error(calls + "\\g<n>"),
            "f: p: the regular expression '" + calls +
                "\\g<n>' calls groups 21 times, expected at most 20 calls");
  std::string classes;
  for (int i = 0; i < 5000; ++i) classes += "[a-c]\\p{L}";
  EXPECT_EQ(construction_error(classes), "no error");
  EXPECT_EQ(construction_error(classes + "\\w"),
            "f: p: the regular expression '" + printable(classes) +
                "' has 10001 classes of characters, expected at most 10000");
  std::string captures;
  for (int i = 0; i <= Pattern::max_captures; ++i) captures += "()";
  EXPECT_EQ(construction_error(captures), "f: p: the regular expression '" + printable(captures) +
                                              "' is invalid: too many captures");
}

std::string search_error(const std::string& expression, const std::string& text) {
  const Pattern pattern(expression, "f: p");
  return input_error([&] { pattern.find_all(text); });
}

TEST(Pattern, GivesUpWhereItWouldTakeForEver) {
  EXPECT_EQ(search_error("(?:a|aa)+(?:a|aa)+(?:a|aa)+b", std::string(200, 'a')),
            "f: p: the regular expression '(?:a|aa)+(?:a|aa)+(?:a|aa)+b' fails in a text of 200 "
            "bytes: retry-limit-in-match over; expected one that backtracks less, such as without "
            "repetitions inside repetitions");
  for (const char* expression : {"(a*)*b", "(?i)(?:a|A|aa)*b", "(?<n>a|b\\g<n>|aa)*b",
                                 "(?:a|a?)+[bc]c", "(?:(?=a).|aa)+[bc]c", "(a|aa)+\\1[bc]c"})
    expect_says(search_error(expression, std::string(300, 'a') + " b c"),
                "retry-limit-in-match over", expression);
}

/// Searches of one text share their steps. Many moderately slow searches therefore end with an
/// error too.
TEST(Pattern, GivesUpAfterManySlowMatches) {
  expect_says(search_error("(?=(?:a|aa){0,18}b|)a", std::string(2000, 'a') + " b"),
              "retry-limit-in-match over");
}

TEST(Pattern, LimitsTheMemoryOfASearch) {
  expect_says(search_error("(?:a|b)*c", std::string(5'000'000, 'a') + " c"),
              "match-stack limit over");
  EXPECT_EQ(matches("(?:a|b)*", std::string(1'000'000, 'a')).size(), 1u);
}

TEST(Pattern, LongTextsOfSensibleExpressions) {
  const std::string spaces = std::string(1'000'000, ' ') + "a";
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", spaces), (Strings{std::string(999'999, ' '), " "}));
}

TEST(Pattern, ErrorsThatAnExpressionAsksFor) {
  EXPECT_EQ(search_error("(*ERROR{-5})a", "a"),
            "f: p: the regular expression '(*ERROR{-5})a' fails in a text of 1 bytes: fail to "
            "memory allocation; expected one that backtracks less, such as without repetitions "
            "inside repetitions");
  EXPECT_NE(search_error("(*ERROR{-223})a", "a"), "no error");
  EXPECT_NE(search_error("(*ERROR{-17})a", "a"), "no error");
  EXPECT_EQ(search_error("(*ERROR{-1})a|a", "a"), "no error");
}

TEST(Pattern, RefusesMatchesInsideOthers) {
  EXPECT_EQ(search_error("a|b(?<=\\Kab)", "ab"),
            "f: p: a match of the regular expression 'a|b(?<=\\Kab)' begins at byte 0, inside the "
            "match before, which ends at byte 1; expected no \\K in a look-behind");
}

TEST(Pattern, IsSharedByThreads) {
  const Pattern pattern("(\\w+) |\\p{Han}", "p");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "word \xE6\x9D\xB1, ";
  const std::size_t expected = pattern.find_all(text).size();
  EXPECT_EQ(expected, 4000u);
  std::vector<std::size_t> found(4);
  std::vector<std::thread> threads;
  for (std::size_t& each : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) each = pattern.find_all(text).size();
      each = Pattern("(\\w+) |\\p{Han}", "p").find_all(text).size();
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(found, std::vector<std::size_t>(4, expected));
}

// ---- Ends of lines: the answers of Hugging Face's tokenizers 0.22 -------------------------------

std::string replaced(const char* pattern, const std::string& text) {
  const auto json = parse_json(
      R"({"type": "Replace", "content": "!", "pattern": )" + std::string(pattern) + "}", "t.json");
  AlignedText aligned(text);
  read_normalizer(JsonPart(json, "t.json"))(aligned);
  return std::string(aligned.text());
}

TEST(AlignedText, WhatIsInsertedBeforeTrimmedTextLiesWhereItBegan) {
  AlignedText aligned(" a", 3);
  aligned = aligned.slice({1, 2});
  aligned.replace({{0, 0}}, "b");
  EXPECT_EQ(aligned.text(), "ba");
  EXPECT_EQ(std::pair(aligned.origin(0).begin, aligned.origin(0).end), std::pair(3U, 3U));
}

/// As in Hugging Face's library, where one block begins 256 characters late.
TEST(BertNormalizer, SetsSpacesAroundIdeographs) {
  const auto json = parse_json(
      R"({"type": "BertNormalizer", "clean_text": false, "lowercase": false})", "t.json");
  const TextNormalizer normalize = read_normalizer(JsonPart(json, "t.json"));
  const auto is_set_apart = [&](char32_t c) {
    std::string text;
    append_utf8(text, c);
    AlignedText aligned(text);
    normalize(aligned);
    return aligned.text() == " " + text + " ";
  };
  using Block = std::pair<char32_t, char32_t>;
  for (const auto& [first, last] :
       {Block{0x3400, 0x4DBF}, Block{0x4E00, 0x9FFF}, Block{0xF900, 0xFAFF},
        Block{0x20000, 0x2A6DF}, Block{0x2A700, 0x2B81F}, Block{0x2B920, 0x2CEAF},
        Block{0x2F800, 0x2FA1F}}) {
    EXPECT_TRUE(is_set_apart(first) && is_set_apart(last)) << static_cast<std::uint32_t>(first);
    EXPECT_FALSE(is_set_apart(first - 1) || is_set_apart(last + 1))
        << static_cast<std::uint32_t>(first);
  }
}

Strings split(const char* pattern, const char* behavior, const std::string& text) {
  const auto json = parse_json(R"({"type": "Split", "invert": false, "behavior": ")" +
                                   std::string(behavior) + R"(", "pattern": )" + pattern + "}",
                               "t.json");
  Words words;
  words.text = AlignedText(text);
  words.ranges.push_back({0, words.text.size()});
  read_pre_tokenizer(JsonPart(json, "t.json")).apply(words);
  Strings parts;
  for (std::size_t i = 0; i < words.ranges.size(); ++i) parts.emplace_back(words[i]);
  return parts;
}

TEST(Pattern, ADollarIsTheEndOfEachLine) {
  constexpr const char *end = R"({"Regex": "$"})", *b_at_end = R"({"Regex": "b$"})",
                       *dollar = R"({"String": "$"})";
  EXPECT_EQ(replaced(end, "ab\ncb\n"), "ab!\ncb!\n!");
  EXPECT_EQ(replaced(end, "a$b$"), "a$b$!");
  EXPECT_EQ(replaced(b_at_end, "ab\ncb\n"), "a!\nc!\n");
  EXPECT_EQ(replaced(dollar, "a$b$"), "a!b!");
  for (const char* behavior : {"Isolated", "Removed"})
    EXPECT_EQ(split(end, behavior, "ab\ncb\n"), (Strings{"ab", "\ncb", "\n"}));
  EXPECT_EQ(split(b_at_end, "Isolated", "ab\ncb\n"), (Strings{"a", "b", "\nc", "b", "\n"}));
  EXPECT_EQ(split(dollar, "MergedWithPrevious", "a$b$"), (Strings{"a$", "b$"}));
}

}  // namespace
}  // namespace nystrom
