// Conversion of pieces to text.
#include "data/tokenizers/pipeline/decoders.h"

#include <gtest/gtest.h>

#include "core/base/json_part.h"
#include "data/tokenizers/pipeline/normalizers.h"

namespace nystrom {
namespace {

/// Decodes bytes that form one piece.
std::string decoded(const std::string& bytes) {
  std::string piece;
  for (const char byte : bytes) piece += byte_level_character(static_cast<unsigned char>(byte));
  std::vector<std::string> parts{piece};
  const nlohmann::json json = {{"type", "ByteLevel"}};
  read_decoder(JsonPart(json, "t.json"))(parts);
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

/// The same as errors="replace" in Python.
TEST(ByteLevelDecoder, ReplacesABeginningOfACharacterOnce) {
  EXPECT_EQ(decoded("\xC3"), "\uFFFD");
  EXPECT_EQ(decoded("\xE2\x82z"), "\uFFFDz");
  EXPECT_EQ(decoded("\xF4\x8Fz"), "\uFFFDz");
}

TEST(ByteLevelDecoder, ReplacesEachByteThatBeginsNoCharacter) {
  EXPECT_EQ(decoded("\x80\xBF"), "\uFFFD\uFFFD");
  EXPECT_EQ(decoded("\xF5\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(decoded("\xF4\x90"), "\uFFFD\uFFFD");
}

/// The empty text is found before each character and at the end, as the empty expression.
TEST(ReplacingDecoder, InsertsAtEachPlaceOfTheEmptyText) {
  for (const char* kind : {"String", "Regex"}) {
    const nlohmann::json json = {{"type", "Replace"}, {"pattern", {{kind, ""}}}, {"content", "x"}};
    std::vector<std::string> parts{"a", "\u00e9b", ""};
    read_decoder(JsonPart(json, "t.json"))(parts);
    EXPECT_EQ(parts, (std::vector<std::string>{"xax", "x\u00e9xbx", ""})) << kind;
  }
}

}  // namespace
}  // namespace nystrom
