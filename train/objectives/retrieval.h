// Evaluation of retrieval on folders in BEIR's form (Thakur et al., NeurIPS 2021).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/objectives/ranking_metrics.h"
#include "train/objectives/text_embedder.h"

namespace nystrom {

/// The ids of a file of documents.
struct DocumentIds {
  std::vector<std::string> sorted;   ///< largest first
  std::vector<std::int64_t> places;  ///< in `sorted`, of each document in the order of the file

  bool contains(const std::string& id) const;
};

/// The queries of a folder and their judged documents. The documents' texts stay in their file.
struct RetrievalSet {
  std::filesystem::path corpus;  ///< corpus.jsonl
  std::string split;             ///< the name of the judgements: qrels/SPLIT.tsv
  std::vector<std::string> query_ids, queries;
  /// For each query the relevance of documents by id.
  std::vector<std::map<std::string, std::int64_t>> judged;
  DocumentIds documents;
  /// Whether the document with a query's id is the query itself, as in ArguAna, and is not ranked.
  /// A judgement of one says that queries and documents have ids of their own.
  bool queries_are_documents = true;
  /// What a reader of the scores must know, one line each: judgements that name nothing.
  std::vector<std::string> notes;
};

/// Reads queries.jsonl and corpus.jsonl ({"_id", "text"} a line) and qrels/SPLIT.tsv (columns
/// query-id, corpus-id, score). Ids are texts: 1 and "1" are equal, 1 and 1.0 are not. Without
/// `split`: qrels/test.tsv, else the only file there. Queries without judgements are left out.
/// Throws an InputError "file:line: …", also where no judged query or no judged document exists.
RetrievalSet read_retrieval(const std::filesystem::path& folder,
                            const std::optional<std::string>& split);

/// Means over the queries.
struct RetrievalScores {
  RankingScores scores;
  std::int64_t queries = 0, documents = 0;
};

/// Ranks all documents for each query by the products of their vectors. A document is its title, a
/// space, and its text; the query itself is left out, as in BEIR. The hundred best are scored as by
/// trec_eval: of equal products the larger id comes first, and a judged document that does not
/// exist is not found. The corpus is read in bounded memory. `progress` is called with the
/// documents done and their number. Throws an InputError "file:line: …".
RetrievalScores evaluate_retrieval(
    TextEmbedder& queries, TextEmbedder& documents, const RetrievalSet& set,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace nystrom
