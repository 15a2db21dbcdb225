#include "data/pretraining/masking.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace nystrom::testing {
namespace {

const std::vector<std::int64_t> special_ids{0, 1, 2, 3, 4};

/// cls, the ids 100 … 100 + count − 1, sep.
std::vector<std::int64_t> sample(std::size_t count) {
  std::vector<std::int64_t> ids(count + 2);
  std::iota(ids.begin(), ids.end(), 99);
  ids.front() = 2;
  ids.back() = 3;
  return ids;
}

/// Restores the text in its original order, and the cut, from cls A sep B sep.
std::vector<std::int64_t> text_of(const Segments& s, std::size_t& cut) {
  const auto middle = std::find(s.ids.begin(), s.ids.end(), 3);
  std::vector<std::int64_t> a(s.ids.begin() + 1, middle), b(middle + 1, s.ids.end() - 1);
  if (s.swapped) std::swap(a, b);
  cut = a.size();
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Segments, AreTheTextInTwoParts) {
  const MaskingTable table(1000, 4, special_ids);
  std::int64_t swapped = 0;
  std::set<std::size_t> cuts;
  for (std::uint64_t number = 0; number < 2000; ++number) {
    const auto ids = sample(20);
    const Segments s = cut_in_segments(ids, table, {1, 0, number});
    ASSERT_EQ(s.ids.size(), 23);
    ASSERT_EQ(s.ids.front(), 2);
    ASSERT_EQ(s.ids.back(), 3);
    std::size_t cut = 0;
    ASSERT_EQ(text_of(s, cut), std::vector<std::int64_t>(ids.begin() + 1, ids.end() - 1));
    cuts.insert(cut);
    const auto behind =
        static_cast<std::size_t>(std::find(s.ids.begin(), s.ids.end(), 3) - s.ids.begin()) + 1;
    for (std::size_t i = 0; i < s.types.size(); ++i) ASSERT_EQ(s.types[i], i < behind ? 0 : 1);
    swapped += s.swapped;
  }
  EXPECT_EQ(cuts.size(), 19) << "no segment is empty, every place is drawn";
  EXPECT_NEAR(static_cast<double>(swapped), 1000, 110);  // 5 standard deviations
}

TEST(Segments, BeginAtWords) {
  std::vector<std::string> surfaces(1000);
  for (std::size_t id = 0; id < surfaces.size(); ++id) surfaces[id] = id % 5 == 0 ? " a" : "a";
  const MaskingTable table(1000, 4, special_ids, surfaces);
  for (std::uint64_t number = 0; number < 200; ++number) {
    std::size_t cut = 0;
    text_of(cut_in_segments(sample(20), table, {1, 0, number}), cut);
    ASSERT_EQ(cut % 5, 0);
    text_of(cut_in_segments(sample(4), table, {1, 0, number}), cut);  // no word starts inside
    ASSERT_TRUE(cut >= 1 && cut <= 3);
  }
}

TEST(Segments, DependOnSeedEpochAndSampleAlone) {
  const MaskingTable table(1000, 4, special_ids);
  const auto ids = sample(500);
  const Segments first = cut_in_segments(ids, table, {1, 2, 3});
  EXPECT_EQ(cut_in_segments(ids, table, {1, 2, 3}).ids, first.ids);
  for (const MaskingKey& key : {MaskingKey{2, 2, 3}, MaskingKey{1, 3, 3}, MaskingKey{1, 2, 4}})
    EXPECT_NE(cut_in_segments(ids, table, key).ids, first.ids);
}

}  // namespace
}  // namespace nystrom::testing
