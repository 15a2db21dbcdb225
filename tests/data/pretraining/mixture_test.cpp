// Several sources of training samples: each gives its share, in an order of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "data/pretraining/loader.h"
#include "tests/data/tokenizers/token_sets.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

TEST(SourceOrder, EachSourceHasItsShareOfAnyManyPlaces) {
  const std::vector<double> weights = {7, 2, 0.9, 0.1};
  const SourceOrder order(weights, 42);
  std::vector<std::int64_t> counts(weights.size());
  for (std::int64_t place = 0; place < 8 * 1024; ++place) {
    ++counts[order(place).source];
    if ((place + 1) % 1024 != 0) continue;
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_NEAR(static_cast<double>(counts[i]), weights[i] / 10 * static_cast<double>(place + 1),
                  1)
          << "source " << i << " after " << place + 1;
  }
}

TEST(SourceOrder, NumbersTheDrawsOfASourceWithoutGaps) {
  const std::vector<double> weights = {1, 1000, 30};  // blocks of 8192 places
  const SourceOrder order(weights, 1);
  std::vector<std::set<std::int64_t>> numbers(weights.size());
  for (std::int64_t place = 0; place < 3 * 8192; ++place) {
    const auto [source, number] = order(place);
    EXPECT_TRUE(numbers[source].insert(number).second);
  }
  for (const auto& drawn : numbers) {
    EXPECT_EQ(*drawn.begin(), 0);
    EXPECT_EQ(*drawn.rbegin() + 1, std::ssize(drawn));
  }
}

TEST(SourceOrder, DiffersBetweenSeedsAndNotBetweenCalls) {
  const std::vector<double> weights = {1, 1};
  const auto first_places = [&](std::uint64_t seed) {
    const SourceOrder order(weights, seed);
    std::vector<std::size_t> sources;
    for (std::int64_t place = 0; place < 100; ++place) sources.push_back(order(place).source);
    return sources;
  };
  EXPECT_EQ(first_places(1), first_places(1));
  EXPECT_NE(first_places(1), first_places(2));
}

TEST(SourceOrder, RefusesASourceThatIsNeverDrawn) {
  const std::vector<double> weights = {1 - 1e-11, 1e-11};
  EXPECT_EQ(input_error([&] { SourceOrder(weights, 1); }),
            "a source has 1e-11 of the weight of all, at least 1e-10 expected");
}

class MixtureTest : public FolderTest {
 protected:
  MaskedSamples source(const char* name, const std::vector<std::size_t>& lengths,
                       std::optional<double> weight) {
    write_set(folder_ / name, documents_of(lengths), 500);
    MaskedSamples samples{
        std::make_shared<const Packing>(open_set(folder_ / name),
                                        PackingOptions{.sequence_length = 30}),
        std::make_shared<const MaskingTable>(1000, 4, ids_of(small_info().special)),
        {},
        42};
    samples.weight = weight;
    return samples;
  }

  /// Documents of 10 tokens, and of 20: a sequence's length names its source.
  std::vector<MaskedSamples> two_sources(std::optional<double> first,
                                         std::optional<double> second) {
    return {source("short", std::vector<std::size_t>(90, 10), first),
            source("long", std::vector<std::size_t>(10, 20), second)};
  }

  /// The sequences of each length in `steps` steps of 64.
  std::map<std::int64_t, std::int64_t> lengths_of(const std::vector<MaskedSamples>& sources,
                                                  int steps) {
    Loader loader(sources, {.batch_size = 64, .micro_batch_size = 16});
    std::map<std::int64_t, std::int64_t> counts;
    for (int step = 0; step < steps; ++step) {
      for (const Batch& batch : loader.next())
        for (std::size_t i = 1; i < batch.input.offsets.size(); ++i)
          ++counts[batch.input.offsets[i] - batch.input.offsets[i - 1]];
    }
    return counts;
  }
};

TEST_F(MixtureTest, WeightsDecideHowOftenASourceIsDrawn) {
  const auto counts = lengths_of(two_sources(1, 3), 32);
  EXPECT_NEAR(static_cast<double>(counts.at(12)), 512, 2);
  EXPECT_NEAR(static_cast<double>(counts.at(22)), 1536, 2);
}

TEST_F(MixtureTest, WithoutWeightsSizesDecide) {
  const auto counts = lengths_of(two_sources({}, {}), 16);
  EXPECT_NEAR(static_cast<double>(counts.at(12)), 0.9 * 1024, 2);
  EXPECT_NEAR(static_cast<double>(counts.at(22)), 0.1 * 1024, 2);
}

TEST_F(MixtureTest, ResumesAtAnyStepAndSplitsOverRanks) {
  const auto sources = two_sources(1, 3);
  const auto ids_from = [&](LoaderOptions options, std::int64_t first, std::int64_t steps) {
    Loader loader(sources, options, first);
    std::vector<std::int64_t> ids;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (const Batch& batch : loader.next()) {
        const auto* id = batch.input.input_ids.data<std::int64_t>();
        ids.insert(ids.end(), id, id + batch.tokens);
      }
    }
    return ids;
  };
  const LoaderOptions alone{.batch_size = 8, .micro_batch_size = 4};
  std::vector<std::int64_t> all = ids_from(alone, 0, 5), parts = ids_from(alone, 0, 2);
  const auto rest = ids_from(alone, 2, 3);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, parts);
  std::vector<std::int64_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const auto own =
        ids_from({.batch_size = 8, .micro_batch_size = 4, .rank = rank, .world_size = 2}, 3, 1);
    ranks.insert(ranks.end(), own.begin(), own.end());
  }
  EXPECT_EQ(ranks, ids_from(alone, 3, 1));
}

}  // namespace
}  // namespace nystrom::testing
