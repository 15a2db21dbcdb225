// Exact nearest neighbours, by blocks of products without an index, and the evaluation of retrieval
// on folders in BEIR's form (Thakur et al., NeurIPS 2021).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// The queries of a folder and their judged documents. The documents' texts stay in their file.
struct RetrievalSet {
  std::filesystem::path corpus;  ///< corpus.jsonl
  std::string split;             ///< the name of the judgements: qrels/SPLIT.tsv
  std::vector<std::string> query_ids, queries;
  /// For each query the relevance of documents by id.
  std::vector<std::map<std::string, std::int64_t>> judged;
  std::vector<std::string> document_ids;  ///< largest first
  /// The place in document_ids of each document, in the order of the file.
  std::vector<std::int64_t> document_places;
  /// Whether the document with a query's id is the query itself, as in ArguAna, and is not ranked.
  /// A judgement of one says that queries and documents have ids of their own.
  bool queries_are_documents = true;
  /// Remarks on the scores, one line each: judgements that name nothing.
  std::vector<std::string> notes;
};

/// Reads queries.jsonl and corpus.jsonl ({"_id", "text"} a line) and qrels/SPLIT.tsv (columns
/// query-id, corpus-id, score). Ids are texts: 1 and "1" are equal, 1 and 1.0 are not. Without
/// `split`: qrels/test.tsv, else the only file there. Queries without judgements are left out.
/// Throws an InputError "file:line: …", also where no judged query or no judged document exists.
RetrievalSet read_retrieval(const std::filesystem::path& folder,
                            const std::optional<std::string>& split);

/// A checksum of the queries, of what is relevant for them, and of the documents' file.
std::string checksum_of(const RetrievalSet& set);

/// The metrics of rankings, equal to those of trec_eval: ndcg_cut_10, whose gains are relevances; 1
/// / rank of the first relevant document, 0 beyond 10; recall_100; map_cut_100.
inline constexpr std::array ranking_metrics = {TaskMetric::ndcg_at_10, TaskMetric::mrr_at_10,
                                               TaskMetric::recall_at_100, TaskMetric::map_at_100};

/// The ranking_metrics of the ranking for one query, or their means over queries.
using RankingScores = std::array<double, ranking_metrics.size()>;

/// Scores the ranking for one query. `ranked` has the relevance of each document, best first, with
/// 0 for documents that are not judged. `judged` has the relevance of each judged document, also of
/// those that were not found. A document is relevant from 1 on. Without a relevant document all
/// scores are 0.
RankingScores score_ranking(std::span<const std::int64_t> ranked, std::vector<std::int64_t> judged);

/// Ranks all documents for each query by the products of their vectors. A document is its title, a
/// space, and its text; the query itself is left out, as in BEIR. Returns the means of the scores
/// of the hundred best: of equal products the larger id comes first, and a judged document that
/// does not exist is not found. The corpus is read in bounded memory. `progress` is called with the
/// documents done and their number. Throws an InputError "file:line: …".
RankingScores evaluate_retrieval(
    TextEmbedder& queries, TextEmbedder& documents, const RetrievalSet& set,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// A vector and its product with a query: their cosine, if both have length 1.
struct Neighbour {
  std::int64_t key = 0;
  float score = 0;
};

/// The k vectors of a stream with the largest products with each query. The memory does not depend
/// on the number of vectors.
class NearestNeighbours {
 public:
  /// `queries` is [q, width] f32 on the CPU.
  NearestNeighbours(Tensor queries, std::int64_t k);

  /// Adds vectors [n, width] f32 with their keys, which are unique. A product is a sum in f64,
  /// rounded to f32, so that it does not depend on the block. Of equal products the smaller key
  /// comes first.
  void add(const Tensor& vectors, std::span<const std::int64_t> keys);

  /// At most k neighbours for each query, the nearest first.
  std::vector<std::vector<Neighbour>> sorted() const;

 private:
  void add_block(const Tensor& vectors, std::span<const std::int64_t> keys, std::int64_t first);

  Tensor queries_;
  std::size_t k_;
  std::vector<double> lengths_;               // of the queries
  std::vector<std::vector<Neighbour>> best_;  // heaps, the worst on top
};

}  // namespace nystrom
