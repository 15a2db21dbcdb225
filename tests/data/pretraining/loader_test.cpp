#include "data/pretraining/loader.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/data/tokenizers/token_sets.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"

namespace nystrom::testing {
namespace {

TEST(SampleOrder, IsAPermutationOfEveryEpoch) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097}) {
    const SampleOrder order(size, 42);
    for (const std::int64_t epoch : {0, 1, 1000000}) {
      std::set<std::int64_t> seen;
      for (std::int64_t place = 0; place < size; ++place) {
        const std::int64_t sample = order(epoch * size + place);
        EXPECT_TRUE(sample >= 0 && sample < size);
        seen.insert(sample);
      }
      EXPECT_EQ(seen.size(), size);
    }
  }
}

TEST(SampleOrder, DiffersBetweenEpochsAndSeeds) {
  constexpr std::int64_t size = 1000;
  const SampleOrder order(size, 42), other(size, 43);
  int same_epoch = 0, same_seed = 0, kept = 0;
  for (std::int64_t place = 0; place < size; ++place) {
    same_epoch += order(place) == order(size + place);
    same_seed += order(place) == other(place);
    kept += order(place) == place;
  }
  // Independent orders have one match on average.
  EXPECT_LT(same_epoch, 8);
  EXPECT_LT(same_seed, 8);
  EXPECT_LT(kept, 8);
}

TEST(SampleOrder, EverySampleIsEquallyLikelyAtEveryPlace) {
  constexpr std::int64_t size = 10, epochs = 20000;
  const SampleOrder order(size, 1);
  std::vector<std::vector<int>> hits(size, std::vector<int>(size));
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t place = 0; place < size; ++place)
      ++hits[static_cast<std::size_t>(place)]
            [static_cast<std::size_t>(order(epoch * size + place))];
  }
  for (const auto& row : hits) {
    for (const int count : row)
      EXPECT_NEAR(count, epochs / size, 5 * 43);  // the standard deviation is 43
  }
}

TEST(SampleOrder, WorksAtAnySize) {
  const SampleOrder order((std::int64_t{1} << 40) + 12345, 7);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 10000; ++i) seen.insert(order(3 * order.size() + i * 100'000'000));
  EXPECT_EQ(seen.size(), 10000);
  EXPECT_GT(*seen.rbegin(), std::int64_t{1} << 39);
}

class LoaderTest : public FolderTest {
 protected:
  void SetUp() override {
    std::vector<std::size_t> lengths;
    for (std::uint64_t i = 0; i < 97; ++i) lengths.push_back(2 + mix64(i) % 60);
    write_set(folder_ / "x", documents_of(lengths), 500);
    source_ = {std::make_shared<const Packing>(open_set(folder_ / "x"),
                                               PackingOptions{.sequence_length = 30}),
               std::make_shared<const MaskingTable>(1000, 4, ids_of(small_info().special)),
               {},
               42};
  }

  MaskedSamples source_;
};

/// A sequence. Sequences are stored by their position in the run.
struct Row {
  std::vector<std::int64_t> ids, labels;
  friend bool operator==(const Row&, const Row&) = default;
};
using Rows = std::map<std::int64_t, Row>;

/// Adds the sequences of a batch and checks its shapes.
void collect(const Batch& batch, Rows& rows) {
  const std::vector<std::int64_t>& offsets = batch.input.offsets;
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(batch.input.input_ids.shape(), Shape{offsets.back()});
  EXPECT_EQ(batch.labels.shape(), Shape{offsets.back()});
  EXPECT_EQ(batch.sample_ids.shape(), Shape{batch.input.sequences()});
  std::int64_t chosen = 0;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    Row row;
    for (std::int64_t i = offsets[b]; i < offsets[b + 1]; ++i) {
      row.ids.push_back(batch.input.input_ids.data<std::int64_t>()[i]);
      row.labels.push_back(batch.labels.data<std::int64_t>()[i]);
      chosen += row.labels.back() != ignore_index;
    }
    EXPECT_TRUE(rows.emplace(batch.sample_ids.data<std::int64_t>()[b], row).second);
  }
  EXPECT_EQ(batch.tokens, offsets.back());
  EXPECT_EQ(batch.targets, chosen);
}

Rows rows_of(Loader& loader, int steps) {
  Rows rows;
  for (int i = 0; i < steps; ++i) {
    for (const Batch& batch : loader.next()) collect(batch, rows);
  }
  return rows;
}

/// Shorter sequences in place of longer ones: ranks and micro-batches divide them as the longer.
TEST_F(LoaderTest, SeveralSequencesForOneKeepTheDivision) {
  Loader plain({source_}, {.batch_size = 15, .micro_batch_size = 15});
  const Rows expected = rows_of(plain, 4);
  const LoaderOptions for_one{.batch_size = 5, .micro_batch_size = 2, .world_size = 2};
  LoaderOptions for_three = for_one;
  for_three.sequences_for_one = 3;
  EXPECT_EQ(micro_batch_ranks(for_three), micro_batch_ranks(for_one));
  Rows rows;
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions options = for_three;
    options.rank = rank;
    Loader loader({source_}, options);
    for (int step = 0; step < 4; ++step) {
      const std::vector<Batch> batches = loader.next();
      EXPECT_EQ(std::ssize(batches), rank == 0 ? 1 : 2) << "as 2 and 3 of the 5";
      for (const Batch& batch : batches) collect(batch, rows);
    }
  }
  EXPECT_EQ(rows, expected);
}

TEST_F(LoaderTest, IsTheSameForAnyMicroBatchesAndRanks) {
  Loader plain({source_}, {.batch_size = 12, .micro_batch_size = 12});
  const Rows expected = rows_of(plain, 30);
  ASSERT_EQ(expected.size(), 360);
  EXPECT_EQ(expected.rbegin()->first, 359);
  for (const std::int64_t micro : {1, 5, 12, 100}) {
    for (const int world : {1, 2, 5}) {
      Rows rows;
      for (int rank = 0; rank < world; ++rank) {
        const LoaderOptions options{12, micro, rank, world};
        Loader loader({source_}, options);
        rows.merge(rows_of(loader, 30));
      }
      EXPECT_EQ(rows, expected) << "micro-batches of " << micro << ", " << world << " ranks";
    }
  }
}

TEST_F(LoaderTest, AStepMasksItsShare) {
  source_.masking.probability = 0.1;
  const LoaderOptions options{
      .batch_size = 12, .micro_batch_size = 5, .masked_share = [](std::int64_t step) {
        return step < 3 ? 0.5 : 0.1;
      }};
  Loader loader({source_}, options), plain({source_}, {.batch_size = 12, .micro_batch_size = 5});
  for (int step = 0; step < 6; ++step) {
    std::int64_t tokens = 0, targets = 0;
    Rows rows;
    for (const Batch& batch : loader.next()) {
      collect(batch, rows);
      tokens += batch.tokens - 2 * batch.input.sequences();
      targets += batch.targets;
    }
    EXPECT_NEAR(static_cast<double>(targets), (step < 3 ? 0.5 : 0.1) * static_cast<double>(tokens),
                12)
        << "each sequence rounds";
    const Rows own = rows_of(plain, 1);
    if (step >= 3) {
      EXPECT_EQ(rows, own);
    }
  }
}

TEST_F(LoaderTest, ResumesAtAnyStep) {
  const LoaderOptions options{.batch_size = 12, .micro_batch_size = 5};
  Loader plain({source_}, options);
  std::vector<Rows> expected(40);
  for (Rows& rows : expected) rows = rows_of(plain, 1);
  for (std::size_t step = 0; step < expected.size(); ++step) {
    Loader resumed({source_}, options, static_cast<std::int64_t>(step));
    for (std::size_t s = step; s < std::min(step + 3, expected.size()); ++s)
      EXPECT_EQ(rows_of(resumed, 1), expected[s]);
  }
  Loader far({source_}, options, std::int64_t{1} << 40);
  EXPECT_EQ(rows_of(far, 1).begin()->first, 12 * (std::int64_t{1} << 40));
}

TEST_F(LoaderTest, EachEpochHasEverySampleOnceWithMasksOfItsOwn) {
  const std::int64_t samples = source_.packing->size();
  std::multiset<std::vector<std::int64_t>> all;
  for (std::int64_t i = 0; i < samples; ++i) all.insert(source_.packing->ids(i));
  Loader loader({source_}, {.batch_size = 10, .micro_batch_size = 4});
  const Rows rows = rows_of(loader, static_cast<int>(3 * samples / 10 + 1));
  std::vector<std::multiset<std::vector<std::int64_t>>> epochs(3);
  std::map<std::vector<std::int64_t>, std::set<std::vector<std::int64_t>>> labels;
  for (const auto& [place, row] : rows) {
    if (place >= 3 * samples) continue;
    std::vector<std::int64_t> original = row.ids;
    for (std::size_t i = 0; i < original.size(); ++i) {
      if (row.labels[i] != ignore_index) original[i] = row.labels[i];
    }
    labels[original].insert(row.labels);
    epochs[static_cast<std::size_t>(place / samples)].insert(std::move(original));
  }
  for (const auto& epoch : epochs) EXPECT_EQ(epoch, all);
  std::size_t different = 0;
  for (const auto& [original, masks] : labels) different += masks.size();
  EXPECT_GT(different, 2 * labels.size());
}

TEST_F(LoaderTest, EvaluationTakesEverySampleOnceInOrder) {
  Rows expected;
  for (std::int64_t i = 0; i < source_.packing->size(); ++i) {
    const SampleUse use{i, 0, i};
    collect(make_batch({&source_, 1}, {&use, 1}), expected);
  }
  for (const int world : {1, 3}) {
    Rows rows;
    for (int rank = 0; rank < world; ++rank) {
      Prefetcher loader =
          evaluation_batches(source_, {.micro_batch_size = 7, .rank = rank, .world_size = world});
      while (const auto batch = loader.next()) collect(*batch, rows);
      EXPECT_FALSE(loader.next());
    }
    EXPECT_EQ(rows, expected);
  }
  // With more ranks than batches some ranks have no work.
  Prefetcher idle =
      evaluation_batches(source_, {.micro_batch_size = 1000, .rank = 2, .world_size = 3});
  EXPECT_FALSE(idle.next());
}

TEST_F(LoaderTest, ErrorsOfWorkersSurfaceInTheirPlace) {
  const auto path = folder_ / "x" / "tokens-00001.h5";
  std::string bytes = read_bytes(path);
  bytes[bytes.find("FADB") + 20] ^= 1;
  write_bytes(path, bytes);
  const auto set = open_set(folder_ / "x");
  const std::string message = input_error([&] { Packing(set, {.sequence_length = 30}); });
  expect_says(message, "incorrect metadata checksum");
  Prefetcher prefetcher(0, 100, 4, 10, [](std::int64_t number) -> Batch {
    if (number == 7) throw InputError("the seventh");
    return {.tokens = number};
  });
  for (std::int64_t i = 0; i < 7; ++i) EXPECT_EQ(prefetcher.next()->tokens, i);
  EXPECT_EQ(input_error([&] { prefetcher.next(); }), "the seventh");
  EXPECT_EQ(input_error([&] { prefetcher.next(); }), "the seventh");
}

TEST_F(LoaderTest, StopsAtAnyTime) {
  for (int taken = 0; taken < 20; ++taken) {
    Loader loader({source_}, {.batch_size = 8, .micro_batch_size = 2});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

TEST_F(LoaderTest, RefusesOptionsThatDoNotFitTogether) {
  EXPECT_EQ(input_error([&] { Loader({source_}, {.batch_size = 2, .rank = 0, .world_size = 3}); }),
            "loader: batch_size 2 leaves some of the 3 ranks without a sequence");
  EXPECT_EQ(input_error([&] { Loader({source_}, {.batch_size = 0}); }),
            "loader: batch_size 0 and micro_batch_size 32 must be at least 1");
  source_.masking.whole_word = true;
  EXPECT_THROW(Loader({source_}, {}).next(), Error);
}

}  // namespace
}  // namespace nystrom::testing
