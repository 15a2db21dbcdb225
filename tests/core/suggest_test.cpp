#include "core/base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace nystrom {
namespace {

const std::vector<std::string> words = {"nystrom", "softmax", "learning_rate", "lr"};

TEST(EditDistance, CountsASwapOnce) { EXPECT_EQ(edit_distance("nystorm", "nystrom", 3), 1); }
TEST(EditDistance, CountsInsertions) { EXPECT_EQ(edit_distance("lerning", "learning", 3), 1); }
TEST(EditDistance, OfEqualWordsIsZero) { EXPECT_EQ(edit_distance("a", "a", 0), 0); }
TEST(EditDistance, IgnoresCase) { EXPECT_EQ(edit_distance("NyStRoM", "nystrom", 0), 0); }
TEST(EditDistance, OfAnEmptyWordIsTheOthersLength) { EXPECT_EQ(edit_distance("", "abc", 3), 3); }
TEST(EditDistance, StopsAtTheLimit) { EXPECT_FALSE(edit_distance("abcdef", "uvwxyz", 5)); }

TEST(Nearest, TakesTheNearer) {
  EXPECT_EQ(nearest("abd", std::vector<std::string>{"abx", "abd"}), "abd");
}
TEST(Nearest, FindsNothingThatSharesNoLetter) {
  EXPECT_FALSE(nearest("7", std::vector<std::string>{"0", "1"}));
}
TEST(Nearest, TakesTheFirstOfEquals) {
  EXPECT_EQ(nearest("abd", std::vector<std::string>{"abx", "aby"}), "abx");
}
TEST(Nearest, FindsNothingFarAway) { EXPECT_FALSE(nearest("linear", words)); }
TEST(Nearest, FindsNothingForLongWords) {
  EXPECT_FALSE(nearest(std::string(257, 'a'), std::vector{std::string(257, 'a')}));
}

TEST(DidYouMean, EndsAMessage) {
  EXPECT_EQ(did_you_mean("nystorm", words), "; did you mean 'nystrom'?");
}
TEST(DidYouMean, IsEmptyWithoutANearWord) { EXPECT_EQ(did_you_mean("linear", words), ""); }

}  // namespace
}  // namespace nystrom
