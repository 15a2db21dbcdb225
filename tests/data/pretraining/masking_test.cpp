#include "data/pretraining/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/data/tokenizers/token_sets.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

constexpr std::int64_t vocab_size = 1000;
const std::vector<std::int64_t> special{0, 1, 2, 3, 4};

MaskingTable table(std::vector<std::string> surfaces = {}) {
  return {vocab_size, 4, special, std::move(surfaces)};
}

/// A vocabulary of letters. Ids divisible by three start a word.
MaskingTable table_of_words() {
  std::vector<std::string> surfaces(vocab_size);
  for (std::size_t id = 0; id < surfaces.size(); ++id) surfaces[id] = id % 3 == 0 ? " a" : "a";
  return table(surfaces);
}

/// [cls], `count` ordinary tokens, [sep] and two padding tokens.
std::vector<std::int64_t> sequence(std::int64_t count, std::uint64_t seed = 0) {
  std::vector<std::int64_t> ids{2};
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(5 + static_cast<std::int64_t>(mix64(seed + static_cast<std::uint64_t>(i)) % 995));
  ids.insert(ids.end(), {3, 0, 0});
  return ids;
}

struct Masked {
  std::vector<std::int64_t> original, ids, labels;
  std::int64_t count;

  std::vector<std::size_t> chosen() const {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != ignore_index) positions.push_back(i);
    }
    return positions;
  }
};

Masked masked(const std::vector<std::int64_t>& original, const MaskingConfig& options,
              const MaskingKey& key, const MaskingTable& t = table()) {
  Masked result{original, original, std::vector<std::int64_t>(original.size()), 0};
  result.count = mask_tokens(result.ids, result.labels, t, options, key);
  return result;
}

/// Checks that `hits` is within 5 standard deviations of a binomial distribution.
void expect_rate(std::int64_t hits, std::int64_t draws, double rate) {
  const double mean = static_cast<double>(draws) * rate;
  EXPECT_NEAR(static_cast<double>(hits), mean, 5 * std::sqrt(mean * (1 - rate)) + 1e-9)
      << hits << " of " << draws;
}

TEST(Masking, ChoosesTheExactNumber) {
  for (const double probability : {0.01, 0.15, 0.5, 0.99, 1.0}) {
    for (std::int64_t k = 0; k <= 300; ++k) {
      const Masked m =
          masked(sequence(k), {.probability = probability}, {1, 2, static_cast<std::uint64_t>(k)});
      const std::int64_t expected = std::min<std::int64_t>(
          k, std::max<std::int64_t>(1, std::lround(probability * static_cast<double>(k))));
      ASSERT_EQ(m.count, expected) << k;
      ASSERT_EQ(m.chosen().size(), expected) << k;
    }
  }
  EXPECT_EQ(masked(sequence(10), {}, {}).count, 2);  // 1.5 rounded up
  EXPECT_EQ(masked(sequence(3), {}, {}).count, 1);
  EXPECT_EQ(masked(sequence(512), {}, {}).count, 77);
}

TEST(Masking, LeavesSpecialTokensAndTheUnchosenAlone) {
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    std::vector<std::int64_t> ids = sequence(40, sample);
    ids[7] = 1;  // unknown, sep and mask inside the sequence
    ids[9] = 3;
    ids[11] = 4;
    const Masked m = masked(ids, {.probability = 0.5}, {3, 0, sample});
    ASSERT_EQ(m.count, 19);  // half of 37 is 18.5, rounded up
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 5) {
        ASSERT_EQ(m.labels[i], ignore_index);
      }
      if (m.labels[i] == ignore_index) {
        ASSERT_EQ(m.ids[i], ids[i]);
      } else {
        ASSERT_EQ(m.labels[i], ids[i]);
      }
    }
  }
}

TEST(Masking, MeetsTheRates) {
  for (const auto& [mask, random] : {std::pair(0.8, 0.1), std::pair(0.0, 1.0), std::pair(0.5, 0.5),
                                     std::pair(0.25, 0.0), std::pair(1.0, 0.0)}) {
    std::int64_t chosen = 0, masks = 0, randoms = 0;
    for (std::uint64_t sample = 0; sample < 5000; ++sample) {
      // All ids are equal, so that replacements are visible, except one in 995.
      const Masked m = masked(std::vector<std::int64_t>(128, 500), {.mask = mask, .random = random},
                              {11, 0, sample});
      ASSERT_EQ(m.count, 19);
      for (const std::size_t i : m.chosen()) {
        ++chosen;
        masks += m.ids[i] == 4;
        randoms += m.ids[i] != 4 && m.ids[i] != 500;
        ASSERT_GE(m.ids[i], 4);  // never another special token
      }
    }
    EXPECT_EQ(chosen, 95000);
    expect_rate(masks, chosen, mask);
    expect_rate(randoms, chosen, random * 994 / 995);
  }
}

TEST(Masking, EveryPlaceAndEveryReplacementIsEquallyLikely) {
  std::vector<std::int64_t> places(64), replacements(vocab_size);
  constexpr std::int64_t draws = 20000;
  for (std::uint64_t sample = 0; sample < draws; ++sample) {
    const Masked m =
        masked(std::vector<std::int64_t>(64, 500), {.mask = 0, .random = 1}, {5, 0, sample});
    for (const std::size_t i : m.chosen()) {
      ++places[i];
      ++replacements[static_cast<std::size_t>(m.ids[i])];
    }
  }
  for (const std::int64_t hits : places) expect_rate(hits, draws, 10.0 / 64);
  for (std::size_t id = 0; id < replacements.size(); ++id)
    expect_rate(replacements[id], 10 * draws, id < 5 ? 0 : 1.0 / 995);
}

TEST(Masking, PairsOfPlacesAreEquallyLikely) {
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> pairs;
  constexpr std::int64_t draws = 30000;
  for (std::uint64_t sample = 0; sample < draws; ++sample) {
    const auto chosen =
        masked(std::vector<std::int64_t>(6, 500), {.probability = 1.0 / 3}, {6, 0, sample})
            .chosen();
    ASSERT_EQ(chosen.size(), 2);
    ++pairs[{chosen[0], chosen[1]}];
  }
  EXPECT_EQ(pairs.size(), 15);
  for (const auto& [pair, hits] : pairs) expect_rate(hits, draws, 1.0 / 15);
}

TEST(Masking, DependsOnSeedEpochAndSampleAlone) {
  const auto ids = sequence(200);
  const Masked first = masked(ids, {}, {1, 2, 3});
  const Masked again = masked(ids, {}, {1, 2, 3});
  EXPECT_EQ(first.ids, again.ids);
  EXPECT_EQ(first.labels, again.labels);
  for (const MaskingKey& key : {MaskingKey{2, 2, 3}, MaskingKey{1, 3, 3}, MaskingKey{1, 2, 4},
                                MaskingKey{1, 2, 3 + (std::uint64_t{1} << 32)}}) {
    EXPECT_NE(masked(ids, {}, key).labels, first.labels);
  }
  // Padding at the end does not affect the tokens before it.
  std::vector<std::int64_t> padded = ids;
  padded.resize(512, 0);
  const Masked longer = masked(padded, {}, {1, 2, 3});
  EXPECT_TRUE(std::equal(first.ids.begin(), first.ids.end(), longer.ids.begin()));
  EXPECT_TRUE(std::equal(first.labels.begin(), first.labels.end(), longer.labels.begin()));
}

TEST(Masking, NeverChangesItsDraws) {
  // A stored example: a change here would change every resumed run.
  std::vector<std::int64_t> ids(20);
  std::iota(ids.begin(), ids.end(), 100);
  const Masked m = masked(ids, {.probability = 0.5}, {42, 1, 7});
  EXPECT_EQ(m.ids, (std::vector<std::int64_t>{100, 101, 250, 4, 931, 4,   4, 287, 108, 109,
                                              110, 111, 112, 4, 114, 115, 4, 117, 4,   119}));
}

TEST(Masking, WholeWordsAreChosenWhole) {
  const MaskingTable words = table_of_words();
  std::int64_t cut = 0, whole = 0;
  for (std::uint64_t sample = 0; sample < 3000; ++sample) {
    std::vector<std::int64_t> ids = sequence(60, 1000 * sample);
    ids[20] = 3;
    const Masked m = masked(ids, {.whole_word = true}, {9, 0, sample}, words);
    for (const MaskingUnit& unit : word_units(ids, words)) {
      ASSERT_LE(unit.end - unit.begin, max_word_tokens);
      const auto chosen = std::count_if(m.labels.begin() + static_cast<std::ptrdiff_t>(unit.begin),
                                        m.labels.begin() + static_cast<std::ptrdiff_t>(unit.end),
                                        [](std::int64_t label) { return label != ignore_index; });
      const bool is_cut = chosen > 0 && static_cast<std::size_t>(chosen) < unit.end - unit.begin;
      (is_cut ? cut : whole) += chosen > 0;
    }
    ASSERT_NEAR(static_cast<double>(m.count), 9, 1);  // 8.85 of 59 tokens, rounded up
  }
  EXPECT_LT(100 * cut, whole);
}

TEST(Masking, WholeWordsOfOneTokenAreChosenAsTokensAre) {
  const auto ids = sequence(200);
  const MaskingTable words = table(std::vector<std::string>(vocab_size, " a"));
  EXPECT_EQ(masked(ids, {.whole_word = true}, {1, 2, 3}, words).ids,
            masked(ids, {}, {1, 2, 3}).ids);
}

/// The words of a text that is cut into these tokens, with "|" between words.
std::string words_of(std::vector<std::string> tokens) {
  std::vector<std::int64_t> ids;
  std::vector<std::string> surfaces(special.size());
  for (std::string& token : tokens) {
    ids.push_back(static_cast<std::int64_t>(surfaces.size()));
    surfaces.push_back(std::move(token));
  }
  const MaskingTable words(static_cast<std::int64_t>(surfaces.size()), 4, special, surfaces);
  std::string text;
  for (const MaskingUnit& unit : word_units(ids, words)) {
    if (!text.empty()) text += '|';
    for (std::size_t i = unit.begin; i < unit.end; ++i)
      text += surfaces[static_cast<std::size_t>(ids[i])];
  }
  return text;
}

TEST(WordUnits, AreWordsByUnicodesRules) {
  EXPECT_EQ(words_of({" har", "bour", ",", " can", "'", "t", " ", "sea"}),
            " harbour|,| can't| sea");
  EXPECT_EQ(words_of({" https", "://", "www", ".", "a", ".org", "/", "x", "y"}),
            " https|://|www.a.org|/|xy");
  EXPECT_EQ(words_of({" 东", "京", "都", "。"}), " 东|京|都|。");
  EXPECT_EQ(words_of({"東京", "タ", "ワー", "は"}), "東京|タワー|は");
  EXPECT_EQ(words_of({"สวั", "ส", "ดี"}), "สวั|ส|ดี");
  EXPECT_EQ(words_of({"ក", "ា", "រ"}), "កា|រ") << "a mark stays with its character";
  EXPECT_EQ(words_of({"\xE4", "\xB8\xAD", "\xE5\x9B\xBD"}), "\xE4\xB8\xAD|\xE5\x9B\xBD")
      << "bytes of a character stay together";
  EXPECT_EQ(words_of({"\xAD", "\xE5\x9B\xBD"}), "\xAD|\xE5\x9B\xBD");
}

TEST(WordUnits, HaveAtMostTenTokens) {
  EXPECT_EQ(words_of(std::vector<std::string>(23, "ac")),
            "acacacacacacacacacac|acacacacacacacacacac|acacac");
}

TEST(WordUnits, AreEachOfOneSequence) {
  std::vector<std::string> surfaces(vocab_size, "a");
  const MaskingTable letters = table(surfaces);
  const std::vector<std::int64_t> ids = {10, 11, 3, 12, 13, 14, 15}, lengths = {2, 3, 2};
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (const MaskingUnit& unit : word_units(ids, letters, lengths))
    found.emplace_back(unit.begin, unit.end);
  EXPECT_EQ(found, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 2}, {3, 5}, {5, 7}}));
}

/// Texts without spaces: the share stays within a token.
TEST(Masking, KeepsTheShareInWordsOfAnyLength) {
  for (const std::size_t length : {1, 2, 3, 5, 9, 40}) {
    std::vector<std::string> surfaces(vocab_size);
    for (std::size_t id = 0; id < surfaces.size(); ++id)
      surfaces[id] = id % length == 0 ? " a" : "a";
    const MaskingTable words = table(surfaces);
    for (std::uint64_t sample = 0; sample < 300; ++sample) {
      std::vector<std::int64_t> ids(30);
      std::iota(ids.begin(), ids.end(), 100);
      const Masked m = masked(ids, {.whole_word = true}, {9, 0, sample}, words);
      ASSERT_NEAR(static_cast<double>(m.count), 5, 1) << length;
    }
  }
}

/// Lengths of the runs of masked tokens.
std::vector<std::size_t> runs(const Masked& m) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < m.labels.size(); ++i) {
    if (m.labels[i] == ignore_index) continue;
    if (i == 0 || m.labels[i - 1] == ignore_index) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

TEST(Masking, SpansChooseTheExactNumber) {
  for (const double probability : {0.01, 0.15, 0.5, 0.99, 1.0}) {
    for (std::int64_t k = 0; k <= 300; ++k) {
      std::vector<std::int64_t> ids = sequence(k);
      if (k > 10) ids[7] = 1;  // spans do not cross it, and it does not count
      const std::int64_t maskable = k > 10 ? k - 1 : k;
      const Masked m = masked(ids, {.probability = probability, .span = {.mean = 3}},
                              {1, 2, static_cast<std::uint64_t>(k)});
      ASSERT_EQ(m.count, std::min(maskable,
                                  std::max<std::int64_t>(
                                      1, std::lround(probability * static_cast<double>(maskable)))))
          << k;
      ASSERT_EQ(m.chosen().size(), m.count);
      for (const std::size_t i : m.chosen()) ASSERT_GE(ids[i], 5);
    }
  }
}

TEST(Masking, SpansAreGeometricAndCapped) {
  // There are so few spans in a long row that they hardly ever touch. Each run is then a span,
  // except the last, which ends when enough tokens are masked.
  std::map<std::size_t, std::int64_t> lengths;
  std::int64_t spans = 0;
  for (std::uint64_t sample = 0; sample < 3000; ++sample) {
    const auto row = runs(masked(std::vector<std::int64_t>(20000, 500),
                                 {.probability = 0.003, .span = {.mean = 3}}, {5, 0, sample}));
    for (const std::size_t length : row) ++lengths[length], ++spans;
  }
  EXPECT_NEAR(static_cast<double>(3000 * 60) / static_cast<double>(spans), 2.9, 0.1);
  double longer = 1;  // (2/3)ⁿ
  for (std::size_t length = 1; length < 10; ++length, longer *= 2.0 / 3)
    EXPECT_NEAR(static_cast<double>(lengths[length]) / static_cast<double>(spans), longer / 3, 0.02)
        << length;
  EXPECT_NEAR(static_cast<double>(lengths[10]) / static_cast<double>(spans), longer, 0.01);
}

TEST(Masking, SpansOfOneAreTokensChosenAlone) {
  const auto ids = sequence(200);
  EXPECT_EQ(masked(ids, {.span = {1, 10}}, {1, 2, 3}).ids, masked(ids, {}, {1, 2, 3}).ids);
  EXPECT_EQ(masked(ids, {.span = {5, 1}}, {1, 2, 3}).ids, masked(ids, {}, {1, 2, 3}).ids);
}

TEST(Masking, SpansEndWithTheirSequence) {
  std::vector<std::int64_t> ids(200, 500), labels(ids.size());
  const std::vector<std::int64_t> of_one_token(ids.size(), 1);
  mask_tokens(ids, labels, table(), {.span = {.mean = 3}}, {1, 2, 3}, of_one_token);
  EXPECT_EQ(ids, masked(std::vector<std::int64_t>(200, 500), {}, {1, 2, 3}).ids);
}

TEST(Masking, SpansOfWholeWordsHoldWholeWords) {
  const MaskingTable words = table_of_words();
  std::size_t spans = 0, single = 0;
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    const std::vector<std::int64_t> ids = sequence(600, 1000 * sample);
    const Masked m = masked(ids, {.whole_word = true, .span = {.mean = 3}}, {9, 0, sample}, words);
    ASSERT_NEAR(static_cast<double>(m.count), 90, 1);
    spans += runs(m).size();
    single += runs(masked(ids, {.whole_word = true}, {9, 0, sample}, words)).size();
  }
  EXPECT_LT(2 * spans, single);  // words are masked next to each other
}

TEST(Masking, NeverChangesItsSpans) {
  std::vector<std::int64_t> ids(30);
  std::iota(ids.begin(), ids.end(), 100);
  const Masked m = masked(ids, {.probability = 0.3, .span = {.mean = 3}}, {42, 1, 7});
  EXPECT_EQ(m.chosen(), (std::vector<std::size_t>{8, 9, 12, 13, 14, 15, 16, 19, 27}));
}

TEST(Masking, NeedsWordsAndOrdinaryTokens) {
  EXPECT_THROW(masked(sequence(9), {.whole_word = true}, {}), Error);
  const std::vector<std::int64_t> all{0, 1};
  EXPECT_EQ(input_error([&] { MaskingTable(3, 2, all); }),
            "masking: all 3 ids of the vocabulary are special");
}

TEST(MaskedRows, AreAShareOfEachSampleAndNotAllOfSeveral) {
  const std::pair<std::int64_t, std::size_t> counts[] = {{1, 1},  {2, 1},    {3, 1},     {10, 2},
                                                         {20, 3}, {200, 30}, {1000, 150}};
  for (const auto& [rows, count] : counts)
    EXPECT_EQ(masked_rows(rows, 0.15, {1, 0, 0}).size(), count) << rows;
  EXPECT_EQ(masked_rows(2, 1, {1, 0, 0}).size(), 1U);
  EXPECT_EQ(masked_rows(10, 0.99, {1, 0, 0}).size(), 9U);
}

TEST(MaskedRows, AreDrawnFromSeedEpochAndSample) {
  const MaskingKey key{7, 3, 11};
  const std::vector<std::int64_t> rows = masked_rows(100, 0.15, key);
  EXPECT_TRUE(std::ranges::is_sorted(rows));
  EXPECT_EQ(masked_rows(100, 0.15, key), rows);
  for (const MaskingKey& other : {MaskingKey{8, 3, 11}, {7, 4, 11}, {7, 3, 12}})
    EXPECT_NE(masked_rows(100, 0.15, other), rows);
  std::map<std::int64_t, std::int64_t> hits;
  for (std::uint64_t sample = 0; sample < 2000; ++sample)
    for (const std::int64_t row : masked_rows(20, 0.15, {1, 0, sample})) ++hits[row];
  for (std::int64_t row = 0; row < 20; ++row) expect_rate(hits[row], 2000, 0.15);
}

}  // namespace
}  // namespace nystrom::testing
