#include "core/base/json.h"
#include "core/base/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/named.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

std::string error_of(const std::string& text) {
  return input_error([&] { parse_json(text, "file"); });
}

TEST(Json, ReadsEveryKindOfValue) {
  const nlohmann::json value =
      parse_json(" {\"a\": [1, -2, 0.5, true, null, \"gr\xc3\xbc\\u00df\"], \"b\": {}}\n", "file");
  EXPECT_EQ(value, (nlohmann::json{{"a", {1, -2, 0.5, true, nullptr, "gr\xc3\xbc\xc3\x9f"}},
                                   {"b", nlohmann::json::object()}}));
}

TEST(Json, ReadsABareValue) { EXPECT_EQ(parse_json("7", "file"), 7); }

TEST(Json, DigitsOfIdentifiersAreKept) {
  const auto read = [](const char* text) { return parse_json(text, "file", keep_digits); };
  EXPECT_EQ(read("123456789012345678901"), "123456789012345678901");
  EXPECT_EQ(read("-123456789012345678901"), "-123456789012345678901");
  EXPECT_EQ(read("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(read("1.5e3"), 1500.0);
}

TEST(Json, TheSameKeyInTwoObjectsIsNoDuplicate) {
  EXPECT_EQ(parse_json(R"([{"a": 1}, {"a": {"a": 2}}])", "file")[1]["a"]["a"], 2);
}

struct Case : testing::Named {
  std::string text;
  std::string message;
};

std::vector<Case> cases() {
  return {
      {"Empty", "",
       "file:1:1: syntax error while parsing value - unexpected end of input; expected '[', '{', "
       "or a literal"},
      {"OnlySpace", " \n ",
       "file:2:1: syntax error while parsing value - unexpected end of input; expected '[', '{', "
       "or a literal"},
      {"Trailing", "{} x",
       "file:1:4: syntax error while parsing value - invalid literal; last read: '{} x'; expected "
       "end of input"},
      {"TwoValues", "1 2",
       "file:1:3: syntax error while parsing value - unexpected number literal; expected end of "
       "input"},
      {"SecondLine", "{\n  \"a\": x}",
       "file:2:8: syntax error while parsing value - invalid literal; last read: '\"a\": x'"},
      {"Duplicate", "{\"a\": 1,\n \"a\": 2}", "file:2:4: key \"a\" appears twice"},
      {"NestedDuplicate", R"([{"b": {"a": 1, "a": 2}}])", "file:1:19: key \"a\" appears twice"},
      {"DuplicateWithControls", "{\"\\u001b\": 1, \"\\u001b\": 2}",
       "file:1:22: key \"\\x1b\" appears twice"},
      {"Nul", std::string("{}\0", 3), "file:1:3: a NUL byte"},
      {"ByteOrderMark", "\xef\xbb\xbf{}",
       "file:1:1: the text starts with a byte order mark; save it as plain UTF-8"},
      {"BadUtf8", "\"\xc3\x28\"",
       "file:1:3: syntax error while parsing value - invalid string: ill-formed UTF-8 byte; last "
       "read: '\"\\xc3('"},
      {"Comment", "// a\n1",
       "file:1:1: syntax error while parsing value - invalid literal; last read: '/'"},
      {"SingleQuotes", "'a'",
       "file:1:1: syntax error while parsing value - invalid literal; last read: '''"},
      {"NotANumber", "NaN",
       "file:1:1: NaN and Infinity are no JSON, though Python's json writes them; put a number or "
       "null"},
      {"NegativeInfinity", "[-Infinity]",
       "file:1:3: NaN and Infinity are no JSON, though Python's json writes them; put a number or "
       "null"},
      {"InfinityInAString", R"(["C:\Infinity"])",
       "file:1:6: syntax error while parsing value - invalid string: forbidden character after "
       "backslash; last read: '\"C:\\I'"},
      {"HugeNumber", "1e999",
       "file:1:5: number overflow parsing '1e999'; expected one that fits 64 bits"},
      {"LeadingZero", "01",
       "file:1:2: syntax error while parsing value - unexpected number literal; expected end of "
       "input"},
      {"TooDeep", std::string(33, '['), "file:1:33: nested deeper than 32 levels"},
      {"FarTooDeep", std::string(100'000, '['), "file:1:33: nested deeper than 32 levels"},
  };
}

class BadJson : public ::testing::TestWithParam<Case> {};

TEST_P(BadJson, IsRefusedWithThePlace) { EXPECT_EQ(error_of(GetParam().text), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(All, BadJson, ::testing::ValuesIn(cases()), testing::case_name);

TEST(Json, ThirtyTwoLevelsAreRead) {
  EXPECT_EQ(error_of(std::string(32, '[') + std::string(32, ']')), "no error");
}

TEST(Json, FilesAboveTheCapAreRefused) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.json", "12345");
  EXPECT_EQ(input_error([&] { read_json_file(folder / "a.json", 4); }),
            (folder / "a.json").string() + ": the file has 5 bytes; at most 4 are read");
  EXPECT_EQ(read_json_file(folder / "a.json", 5), 12345);
}

TEST(Json, FoldersAreRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(input_error([&] { read_json_file(folder.path()); }),
            folder.path().string() + ": is not a regular file");
}

TEST(Printable, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\n\x1b[0m\x7f"), "a\\x0a\\x1b[0m\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  const std::string persian =
      "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae";  // with a joiner that is spelling
  EXPECT_EQ(printable(persian), persian);
  EXPECT_EQ(printable("pos\xe2\x80\x8c"), "pos\\u200c");
  EXPECT_EQ(printable("a\xe2\x80\x8b\xe2\x80\xa8\xef\xbb\xbf"), "a\\u200b\\u2028\\ufeff");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");                    // a C1 control character
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST(Printable, CutsLongText) { EXPECT_EQ(printable("abcdef", 4), "abcd…"); }

}  // namespace
}  // namespace nystrom
