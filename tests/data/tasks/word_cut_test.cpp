// Raw text is cut into words as the training files were.
#include "data/tasks/word_cut.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Words = std::vector<std::string>;

TEST(WordCut, EachCut) {
  const std::string text = "東京でiPhone 15を don't. ไม่";
  EXPECT_EQ(words_of(text, WordCut::spaces, ""), (Words{"東京でiPhone", "15を", "don't.", "ไม่"}));
  EXPECT_EQ(words_of(text, WordCut::words, ""),
            (Words{"東京でiPhone", "15を", "don't", ".", "ไม่"}));
  EXPECT_EQ(words_of(text, WordCut::ideographs, ""),
            (Words{"東", "京", "で", "iPhone", "15", "を", "don't", ".", "ไ", "ม่"}));
  EXPECT_EQ(words_of("MK é", WordCut::characters, ""), (Words{"M", "K", "é"}));
}

TEST(WordCut, AnEmojiIsOneWord) {
  const std::string family = "👨‍👩‍👧", wave = "👋🏽", flag = "🇯🇵", heart = "❤️";
  for (const WordCut cut : {WordCut::words, WordCut::ideographs})
    EXPECT_EQ(words_of("a " + family + wave + flag + flag + heart + " b", cut, ""),
              (Words{"a", family, wave, flag, flag, heart, "b"}));
}

WordCut cut_of(const Words& words) {
  WordCutFinder finder;
  for (const std::string& word : words) finder.add(word);
  return finder.cut();
}

TEST(WordCut, IsFoundInTrainingWords) {
  EXPECT_EQ(cut_of({"The", "ship", "sank", "."}), WordCut::ideographs);
  EXPECT_EQ(cut_of({"王", "明", "去", "了", "北", "京", "。"}), WordCut::ideographs);
  EXPECT_EQ(cut_of({"王明", "去", "了", "北京", "。"}), WordCut::words);
  EXPECT_EQ(cut_of(Words(30, "M")), WordCut::characters);
  EXPECT_EQ(cut_of({"One,", "two", "three.", "Four,", "five,", "six."}), WordCut::spaces);
}

TEST(WordCut, TextWithoutTheSpacesOfTheTrainingIsRefused) {
  EXPECT_EQ(input_error([] { words_of("王明去了北京", WordCut::words, "'x'"); }),
            "'x': its words are not separated, and the model was trained on words that are; put "
            "spaces between them");
  EXPECT_EQ(words_of("王明 去 了 北京", WordCut::words, "").size(), 4);
}

}  // namespace
}  // namespace nystrom
