// From documents to training sequences: [cls] piece [sep], cut by rules that need only the places
// where documents start.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/shards/shards.h"

namespace nystrom {

struct PackingOptions {
  std::int64_t sequence_length = 512;  ///< with cls and sep
  bool cross_documents = false;
  std::int64_t minimum_piece = 2;  ///< shorter remains are dropped: there is nothing to learn from
                                   ///< a token without neighbours
  std::int64_t reserved =
      0;  ///< tokens of sequence_length that stay free, for special tokens added later
};

/// Consecutive tokens of a data set.
struct TokenRange {
  std::int64_t first, count;
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

/// The list of all samples of a data set, never held: any sample is found in O(log) from a small
/// index made in one pass over the documents' starts. Same data set and options, same list. Safe to
/// use from several threads.
///
/// Within documents (the default) each document is cut into pieces of sequence_length − reserved −
/// 2 tokens; what remains at its end is a shorter sample, dropped below minimum_piece. Across
/// documents all are joined into one stream with a sep between neighbours, and that is cut into
/// pieces of that length (the last, if shorter than minimum_piece, is dropped); a sep at the end of
/// a piece falls away.
class Packing {
 public:
  /// InputError when the options leave no sample.
  Packing(std::shared_ptr<const TokenDataset> dataset, PackingOptions options);

  /// Number of samples.
  std::int64_t size() const { return size_; }
  const PackingOptions& options() const { return options_; }
  const TokenDataset& dataset() const { return *dataset_; }

  /// The pieces of a sample, of one document each.
  std::vector<TokenRange> ranges(std::int64_t sample) const;
  /// The sample's ids: cls, the pieces with sep between them, sep.
  std::vector<std::int64_t> ids(std::int64_t sample) const;

 private:
  std::int64_t samples_of(std::int64_t length) const;
  void index_documents();
  std::vector<std::int64_t> bounds(std::int64_t first, std::int64_t count) const;
  std::vector<TokenRange> within(std::int64_t sample) const;
  std::vector<TokenRange> across(std::int64_t sample) const;

  std::shared_ptr<const TokenDataset> dataset_;
  PackingOptions options_;
  std::int64_t piece_ = 0;  // longest piece
  std::int64_t size_ = 0;
  // Of the first document of each block: the samples before it, or its place in the stream of all
  // documents.
  std::vector<std::int64_t> blocks_;
};

}  // namespace nystrom
