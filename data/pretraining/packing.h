// Packing of documents into training sequences [cls] piece [sep], or pieces alone where the
// tokenizer has no such tokens. The rules need only the positions where documents start.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/shards/shards.h"

namespace nystrom {

/// Pieces of fewer tokens are dropped, because a token without neighbours teaches nothing.
inline constexpr std::int64_t min_piece_tokens = 2;

struct PackingOptions {
  std::int64_t sequence_length = 512;  ///< tokens of a sequence, with cls and sep
  bool cross_documents = false;
  /// Several pieces share a sample, each as a sequence of its own. Not across documents.
  bool isolated = false;
  /// Tokens of sequence_length that stay free, for special tokens that are added later.
  std::int64_t reserved = 0;
};

/// Consecutive tokens of a data set.
struct TokenRange {
  std::int64_t first, count;
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

/// The list of all samples of a data set. The list is not stored: any sample is found in O(log)
/// from a small index, which is built in one pass over the documents' starts. The same data set and
/// options give the same list. Thread-safe.
///
/// Within documents (the default), each document is cut into pieces of sequence_length − reserved −
/// around() tokens. The rest is a shorter sample, which is dropped below min_piece_tokens.
/// Across documents, all documents form one stream with a sep between neighbours, which is cut into
/// pieces of that length. The last piece is dropped if it is shorter than min_piece_tokens, and a
/// sep at the end of a piece is removed.
///
/// Isolated pieces are those within documents. A sample takes the next pieces as long as all of
/// them, each with cls and sep, have at most sequence_length tokens.
class Packing {
 public:
  /// Throws an InputError when the options leave no sample.
  Packing(std::shared_ptr<const TokenDataset> dataset, PackingOptions options);

  std::int64_t size() const { return size_; }
  const PackingOptions& options() const { return options_; }
  const TokenDataset& dataset() const { return *dataset_; }

  /// The token ranges of a sample, each from one document.
  std::vector<TokenRange> ranges(std::int64_t sample) const;
  /// The ids of a sample: cls, the pieces with sep between them, sep. Isolated pieces have a cls
  /// each.
  std::vector<std::int64_t> ids(std::int64_t sample) const;
  /// The special tokens around a piece: 2, or 0 where the tokenizer has no cls and sep.
  std::int64_t around() const { return dataset_->info().special.cls == no_id ? 0 : 2; }
  /// The length of the longest piece.
  std::int64_t longest_piece() const { return piece_; }
  /// The most sequences of a sample.
  std::int64_t most_sequences() const {
    return options_.isolated ? options_.sequence_length / (min_piece_tokens + around()) : 1;
  }

 private:
  void index_documents();
  std::vector<std::int64_t> bounds(std::int64_t first, std::int64_t count) const;
  std::int64_t samples_within(const std::vector<std::int64_t>& bound, std::int64_t wanted,
                              std::vector<TokenRange>& found) const;
  std::vector<TokenRange> within(std::int64_t sample) const;
  std::vector<TokenRange> across(std::int64_t sample) const;

  std::shared_ptr<const TokenDataset> dataset_;
  PackingOptions options_;
  std::int64_t piece_ = 0;
  std::int64_t size_ = 0;
  // For the first document of each block: the number of samples before it, or its position in the
  // stream of all documents.
  std::vector<std::int64_t> blocks_;
};

/// The tokens of each sequence of a sample, whose ids are `ids`: one, or the isolated pieces.
std::vector<std::int64_t> sequence_lengths(const Packing& packing, std::int64_t sample,
                                           std::span<const std::int64_t> ids);

}  // namespace nystrom
