#include "data/pretraining/packing.h"

#include <gtest/gtest.h>

#include "tests/data/tokenizers/token_sets.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {

std::ostream& operator<<(std::ostream& stream, const TokenRange& range) {
  return stream << range.first << "+" << range.count;
}

namespace testing {
namespace {

using Ranges = std::vector<TokenRange>;

std::vector<Ranges> all_ranges(const Packing& packing) {
  std::vector<Ranges> result;
  for (std::int64_t i = 0; i < packing.size(); ++i) result.push_back(packing.ranges(i));
  return result;
}

/// Several shards and index blocks, with a few long documents.
TokenLists many_documents() {
  std::vector<std::size_t> lengths;
  for (std::uint64_t i = 0; i < 5000; ++i)
    lengths.push_back(1 + mix64(i) % (i % 100 == 0 ? 300 : 30));
  return documents_of(lengths);
}

using PackingTest = FolderTest;

TEST_F(PackingTest, CutsDocumentsAndDropsShortRemains) {
  write_set(folder_ / "x", documents_of({8, 9, 10, 1, 2, 17}));
  const Packing packing(open_set(folder_ / "x"), {.sequence_length = 10});
  EXPECT_EQ(all_ranges(packing),
            (std::vector<Ranges>{
                {{0, 8}}, {{8, 8}}, {{17, 8}}, {{25, 2}}, {{28, 2}}, {{30, 8}}, {{38, 8}}}));
}

TEST_F(PackingTest, JoinsDocumentsWithSepWhenAsked) {
  const TokenLists documents{{11, 12, 13}, {14}, {15, 16, 17, 18, 19, 20}, {21}};
  write_set(folder_ / "x", documents);
  const Packing packing(open_set(folder_ / "x"), {.sequence_length = 6, .cross_documents = true});
  // The token stream is: 11 12 13 s | 14 s 15 16 | 17 18 19 20 | s 21
  ASSERT_EQ(packing.size(), 4);
  EXPECT_EQ(packing.ids(0), (std::vector<std::int64_t>{2, 11, 12, 13, 3}));
  EXPECT_EQ(packing.ids(1), (std::vector<std::int64_t>{2, 14, 3, 15, 16, 3}));
  EXPECT_EQ(packing.ids(2), (std::vector<std::int64_t>{2, 17, 18, 19, 20, 3}));
  EXPECT_EQ(packing.ids(3), (std::vector<std::int64_t>{2, 21, 3}));
}

/// Tokenizers without cls and sep, as of bytes, put nothing around a piece.
TEST_F(PackingTest, LeavesPiecesAloneWithoutClsAndSep) {
  TokenSetInfo info = small_info();
  info.special.cls = info.special.sep = no_id;
  write_set(folder_ / "x", {{11, 12, 13}, {14, 15}, {16, 17}}, default_shard_tokens, info);
  const Packing packing(open_set(folder_ / "x"), {.sequence_length = 4});
  EXPECT_EQ(packing.ids(0), (std::vector<std::int64_t>{11, 12, 13}));
  EXPECT_EQ(packing.ids(1), (std::vector<std::int64_t>{14, 15}));
  const Packing isolated(open_set(folder_ / "x"), {.sequence_length = 4, .isolated = true});
  EXPECT_EQ(isolated.ids(1), (std::vector<std::int64_t>{14, 15, 16, 17}));
  EXPECT_EQ(isolated.most_sequences(), 2);
  for (const PackingOptions& needs_sep :
       {PackingOptions{.sequence_length = 4, .cross_documents = true},
        PackingOptions{.sequence_length = 4, .reserved = 1}})
    EXPECT_EQ(input_error([&] { Packing(open_set(folder_ / "x"), needs_sep); }),
              "packing: the tokenizer has no sep token, which would stand between documents or "
              "segments; set data.cross_documents and masking.sentence_order to false");
}

TEST_F(PackingTest, IsolatesPiecesThatShareASample) {
  write_set(folder_ / "x", documents_of({2, 3, 1, 2, 8, 9, 4, 2}));
  const Packing packing(open_set(folder_ / "x"), {.sequence_length = 10, .isolated = true});
  EXPECT_EQ(
      all_ranges(packing),
      (std::vector<Ranges>{{{0, 2}, {2, 3}}, {{6, 2}}, {{8, 8}}, {{16, 8}}, {{25, 4}, {29, 2}}}));
  const std::vector<std::int64_t> ids = packing.ids(0);
  ASSERT_EQ(ids.size(), 9);
  for (const std::size_t at : {0, 4}) EXPECT_EQ(ids[at], 2);
  for (const std::size_t at : {3, 8}) EXPECT_EQ(ids[at], 3);
  EXPECT_EQ(packing.most_sequences(), 2);
}

TEST_F(PackingTest, IsolatedPiecesAreThoseOfSequencesAlone) {
  write_set(folder_ / "x", many_documents(), 10000);
  const auto set = open_set(folder_ / "x");
  const Packing alone(set, {.sequence_length = 64}),
      isolated(set, {.sequence_length = 64, .isolated = true});
  Ranges pieces;
  for (std::int64_t i = 0; i < isolated.size(); ++i) {
    std::int64_t tokens = 0;
    for (const TokenRange& range : isolated.ranges(i)) {
      tokens += range.count + 2;
      pieces.push_back(range);
    }
    EXPECT_LE(tokens, 64);
  }
  Ranges expected;
  for (std::int64_t i = 0; i < alone.size(); ++i) expected.push_back(alone.ranges(i).at(0));
  EXPECT_EQ(pieces, expected);
  EXPECT_LT(isolated.size(), alone.size() / 2);
}

TEST_F(PackingTest, SamplesAreClsTokensSep) {
  write_set(folder_ / "x", {{11, 12, 13, 14, 15}});
  const Packing packing(open_set(folder_ / "x"), {.sequence_length = 5});
  ASSERT_EQ(packing.size(), 2);
  EXPECT_EQ(packing.ids(0), (std::vector<std::int64_t>{2, 11, 12, 13, 3}));
  EXPECT_EQ(packing.ids(1), (std::vector<std::int64_t>{2, 14, 15, 3}));
  EXPECT_THROW(packing.ids(2), Error);
  EXPECT_THROW(packing.ids(-1), Error);
}

/// Compared with a simple implementation.
class ManyDocuments : public ::testing::TestWithParam<bool> {};

TEST_P(ManyDocuments, EqualThePlainRule) {
  const TemporaryFolder folder;
  const TokenLists documents = many_documents();
  write_set(folder / "x", documents, 10000);
  const Packing packing(open_set(folder / "x"),
                        {.sequence_length = 34, .cross_documents = GetParam()});

  std::vector<std::vector<std::int64_t>> streams;
  for (const auto& document : documents) {
    if (!GetParam() || streams.empty()) {
      streams.emplace_back();
    } else {
      streams.back().push_back(3);
    }
    streams.back().insert(streams.back().end(), document.begin(), document.end());
  }
  std::vector<std::vector<std::int64_t>> expected;
  for (const auto& stream : streams) {
    for (std::size_t at = 0; at < stream.size() && stream.size() - at >= 2; at += 32) {
      const std::size_t end = std::min(at + 32, stream.size());
      std::size_t first = at, last = end;
      while (stream[first] == 3) ++first;
      while (stream[last - 1] == 3) --last;
      std::vector<std::int64_t>& sample = expected.emplace_back(
          stream.begin() + static_cast<long>(first), stream.begin() + static_cast<long>(last));
      sample.insert(sample.begin(), 2);
      sample.push_back(3);
    }
  }
  ASSERT_EQ(packing.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(packing.ids(static_cast<std::int64_t>(i)), expected[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Packing, ManyDocuments, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Across" : "Within");
});

TEST_F(PackingTest, RefusesOptionsThatLeaveNothing) {
  write_set(folder_ / "x", {{5}, {6}});
  const auto set = open_set(folder_ / "x");
  EXPECT_EQ(input_error([&] { Packing(set, {.sequence_length = 10}); }),
            "no document has 2 tokens; give longer texts");
  EXPECT_EQ(input_error([&] { Packing(set, {.sequence_length = 3}); }),
            "packing: sequences of 3 tokens, of which 2 are cls and sep, cannot hold pieces of 2; "
            "at least 4 expected");
}

}  // namespace
}  // namespace testing
}  // namespace nystrom
