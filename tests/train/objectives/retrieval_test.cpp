// Exact neighbours, scores of rankings, and the evaluation of BEIR folders and scored pairs.
#include "train/objectives/retrieval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/tasks/task_metrics.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_checkpoint.h"
#include "train/objectives/vector_evaluation.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

// The expected values are those of pytrec_eval-terrier 0.5.11: tests/reference/check_embeddings.py.
TEST(RankingMetrics, EqualTrecEval) {
  const std::vector<std::int64_t> ranked = {0, 2, 0, 1, 0, 3};
  const RankingScores scores = score_ranking(ranked, {0, 2, 1, 0, 3, 2, 1});
  EXPECT_NEAR(scores[0], 0.45418341949677576, 1e-15);
  EXPECT_EQ(scores[1], 0.5);
  EXPECT_EQ(scores[2], 0.6);
  EXPECT_NEAR(scores[3], 0.3, 1e-15);
}

TEST(RankingMetrics, NegativeRelevanceIsNone) {
  const RankingScores scores = score_ranking(std::vector<std::int64_t>{1, -1, 2}, {1, -1, 2, -1});
  EXPECT_NEAR(scores[0], 0.7601875334318685, 1e-15);
  EXPECT_NEAR(scores[3], 0.8333333333333333, 1e-15);
}

TEST(RankingMetrics, EndAtTheirDepth) {
  std::vector<std::int64_t> ranked(101, 0);
  ranked[99] = ranked[100] = 1;
  const RankingScores scores = score_ranking(ranked, {1, 1, 0});
  EXPECT_EQ(scores[0], 0);
  EXPECT_EQ(scores[1], 0);
  EXPECT_EQ(scores[2], 0.5);
  EXPECT_EQ(scores[3], 0.005);
}

TEST(RankingMetrics, AreZeroWithoutARelevantDocument) {
  EXPECT_EQ(score_ranking(std::vector<std::int64_t>{0, 0}, {0})[0], 0);
}

/// Pseudo-random numbers from −1 to 1.
Tensor random_vectors(std::int64_t rows, std::int64_t width, std::uint32_t seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * width; ++i) {
    seed = seed * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(seed >> 8) / (1 << 23) - 1);
  }
  return Tensor::from(values, {rows, width});
}

TEST(NearestNeighbours, AreExactWhateverTheBlocks) {
  const Tensor queries = random_vectors(3, 17, 1), vectors = random_vectors(500, 17, 2);
  std::vector<std::int64_t> keys(500);
  std::iota(keys.begin(), keys.end(), 0);
  for (const std::int64_t block : {1, 7, 500}) {
    NearestNeighbours nearest(queries, 10);
    for (std::int64_t begin = 0; begin < 500; begin += block) {
      const std::int64_t end = std::min<std::int64_t>(begin + block, 500);
      nearest.add(vectors.slice(0, begin, end),
                  std::span(keys).subspan(static_cast<std::size_t>(begin),
                                          static_cast<std::size_t>(end - begin)));
    }
    const auto found = nearest.sorted();
    for (std::int64_t q = 0; q < 3; ++q) {
      std::vector<std::pair<float, std::int64_t>> all;
      for (std::int64_t i = 0; i < 500; ++i) {
        double product = 0;
        for (std::int64_t c = 0; c < 17; ++c)
          product += double{queries.data<float>()[q * 17 + c]} * vectors.data<float>()[i * 17 + c];
        all.emplace_back(-static_cast<float>(product), i);
      }
      std::ranges::sort(all);
      for (std::size_t k = 0; k < 10; ++k) {
        EXPECT_EQ(found[static_cast<std::size_t>(q)][k].key, all[k].second) << block;
        EXPECT_EQ(found[static_cast<std::size_t>(q)][k].score, -all[k].first) << block;
      }
    }
  }
}

TEST(NearestNeighbours, OfEqualProductsTheSmallerKeyComesFirst) {
  NearestNeighbours nearest(Tensor::full({1, 4}, 1, DType::f32), 2);
  nearest.add(Tensor::full({3, 4}, 0.5, DType::f32), std::vector<std::int64_t>{5, 9, 2});
  const auto found = nearest.sorted();
  ASSERT_EQ(found[0].size(), 2U);
  EXPECT_EQ(found[0][0].key, 2);
  EXPECT_EQ(found[0][1].key, 5);
}

class RetrievalTest : public ::testing::Test {
 protected:
  RetrievalTest() {
    write("queries.jsonl",
          "{\"_id\": \"q1\", \"text\": \"the sea was calm\"}\n"
          "{\"_id\": \"q2\", \"text\": \"old ships\", \"metadata\": {\"a\": 1}}\n"
          "{\"_id\": \"unjudged\", \"text\": \"men sang\"}\n");
    write("corpus.jsonl",
          "{\"_id\": \"a\", \"title\": \"\", \"text\": \"the sea was calm\"}\n"
          "{\"_id\": \"b\", \"title\": \"old\", \"text\": \"ships\"}\n"
          "{\"_id\": \"q1\", \"text\": \"the sea was calm\", \"metadata\": {}}\n"
          "{\"_id\": \"c\", \"text\": \"the sea was calm\"}\n");
    write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\nq2\tabsent\t1\n");
  }

  fs::path beir() const { return folder_ / "beir"; }
  void write(const std::string& name, const std::string& text) { write_bytes(beir() / name, text); }
  std::string problem(const std::optional<std::string>& split = {}) {
    return message_of([&] { read_retrieval(beir(), split); });
  }
  std::string place(const std::string& name) const { return (beir() / name).string(); }
  TextEmbedder embedder() {
    EmbeddingOptions options;
    options.sequence_length = 24;
    return {*tiny_.model, tiny_.tokenizer, options};
  }

  TemporaryFolder folder_;
  TinyCheckpoint tiny_{folder_ / "model"};
};

TEST_F(RetrievalTest, RanksTheDocumentsOfEachQuery) {
  TextEmbedder queries = embedder(), documents = embedder();
  const RetrievalSet set = read_retrieval(beir(), {});
  EXPECT_EQ(set.split, "test");
  const RankingScores scores = evaluate_retrieval(queries, documents, set);
  EXPECT_EQ(set.queries.size(), 2U);
  EXPECT_EQ(set.document_places.size(), 4U);
  // q1: c before a, of equal products; the document q1 is left out. q2: b alone is equal to it.
  const double q1 = 1 / std::log2(3.0), q2 = 2 / (2 + 1 / std::log2(3.0));
  EXPECT_NEAR(scores[0], (q1 + q2) / 2, 1e-12);
  EXPECT_NEAR(scores[1], (0.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(scores[2], (1 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(scores[3], (0.5 + 0.5) / 2, 1e-12);
}

TEST_F(RetrievalTest, WrongFoldersAreRefused) {
  EXPECT_EQ(problem("dev"), place("qrels") + ": holds test, and no dev.tsv; choose one by --split");
  write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq7\ta\t1\n");
  EXPECT_EQ(problem(), place("qrels/test.tsv") +
                           ": none of its 1 queries is in queries.jsonl, not even 'q7'; ids must "
                           "be written alike");
  write("qrels/test.tsv", "query-id\tcorpus-id\tscore\n");
  EXPECT_EQ(problem(), place("qrels/test.tsv") + ": there are no judgements in it");
  fs::rename(beir() / "qrels/test.tsv", beir() / "qrels/a.tsv");
  write("qrels/b.tsv", "");
  EXPECT_EQ(problem(), place("qrels") + ": holds a, b, and no test.tsv; choose one by --split");
}

TEST_F(RetrievalTest, AQueryThatIsThereTwiceIsRefused) {
  write("queries.jsonl",
        "{\"_id\": \"q1\", \"text\": \"a\"}\n{\"_id\": \"q1\", \"text\": \"b\"}\n");
  EXPECT_EQ(problem(), place("queries.jsonl") + ":2: query 'q1' is there twice");
}

TEST_F(RetrievalTest, JudgementsOfNothingAreNamed) {
  write("qrels/test.tsv",
        "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tx\t1\nq1\ty\t0\nq8\ta\t1\nq9\tb\t1\n");
  const std::vector<std::string> expected = {
      place("qrels/test.tsv") +
          ": 2 of its 3 queries are not in queries.jsonl and are left out; the first: 'q8'",
      "1 queries have the id of a document, which is left out of their ranking",
      place("qrels/test.tsv") +
          ": 2 of its 3 judged documents are not in corpus.jsonl and count "
          "as not found; the first: 'x'"};
  EXPECT_EQ(read_retrieval(beir(), {}).notes, expected);
}

// Both files count from 0, so that equal ids mean nothing.
TEST_F(RetrievalTest, AJudgedDocumentWithTheQuerysIdIsRanked) {
  write("queries.jsonl",
        "{\"_id\": 0, \"text\": \"the sea was calm\"}\n{\"_id\": 1, \"text\": \"men sang\"}\n");
  write("corpus.jsonl",
        "{\"_id\": 0, \"text\": \"the sea was calm\"}\n{\"_id\": 1, \"text\": \"men sang\"}\n");
  write("qrels/test.tsv", "query-id\tcorpus-id\tscore\n0\t0\t1\n1\t1\t1\n");
  TextEmbedder queries = embedder(), documents = embedder();
  const RankingScores scores = evaluate_retrieval(queries, documents, read_retrieval(beir(), {}));
  EXPECT_EQ(scores[0], 1);
}

TEST_F(RetrievalTest, PairsAreComparedByTheirCosines) {
  write("pairs.tsv",
        "text\tpair\tlabel\nthe sea was calm\tthe sea was calm\t5\nold ships\tmen sang\t0\n"
        "the stars\tthe pale stars\t3\n");
  TextEmbedder first = embedder(), second = embedder();
  TaskConfig task;
  task.kind = TaskKind::regression;
  task.columns.pair = "pair";
  const VectorScores result =
      evaluate_pairs(first, second, resolve_task(task), {place("pairs.tsv")});
  const Tensor a = first(std::vector<std::string>{"the sea was calm", "old ships", "the stars"}),
               b = first(
                   std::vector<std::string>{"the sea was calm", "men sang", "the pale stars"});
  std::vector<double> cosines(3, 0);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::int64_t c = 0; c < 6; ++c)
      cosines[i] += double{a.data<float>()[i * 6 + c]} * b.data<float>()[i * 6 + c];
  const std::vector<double> labels = {5, 0, 3};
  EXPECT_EQ(result.counts[0].second, 3);
  EXPECT_NEAR(result.scores[1].second, pearson_correlation(cosines, labels), 1e-6);
  EXPECT_NEAR(result.scores[0].second, spearman_correlation(cosines, labels), 1e-12);
}

}  // namespace
}  // namespace nystrom::testing
