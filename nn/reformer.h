// Reformer (Kitaev et al., ICLR 2020, arXiv 2001.04451): each query attends to keys with the same
// hash.
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// Locality-sensitive hashing attention. Queries also serve as keys: a key is its query, scaled to
/// length √d. Each of num_hashes rounds assigns every token to the bucket argmax [x R; −x R] of a
/// random rotation R. It sorts tokens by bucket and position, and divides them into chunks of
/// bucket_size. A query attends to its own chunk and the one before it.
///
/// One softmax covers all rounds. A key that appears in N rounds counts once: its score is reduced
/// by log N. The query's own key counts only without any other key: its score is reduced by 10⁵.
///
/// For l tokens there are 2 ⌈l / bucket_size⌉ buckets. Above 64, buckets are pairs of buckets of
/// two smaller rotations, about as many in all. Only tokens are hashed, so results do not depend on
/// padding or on the other samples of the batch. The rotations of a layer follow from random_seed
/// and its name, and are never redrawn (the paper draws them at each step). Hashes are constants
/// without gradients. The CPU sorts. Scores are kept: O(n · num_hashes · bucket_size) memory.
class ReformerAttention : public DenseAttention {
 public:
  ReformerAttention(const Scope& scope, const ModelConfig& config);

 private:
  /// Keys are queries, so these are the tokens alone.
  Var of_tokens(const Var& q, const Var& k, const Var& v,
                const std::vector<std::int64_t>& places) const override;
  /// The bucket of each token in each round: [b, h, n, rounds].
  std::vector<std::int64_t> buckets(const Tensor& queries) const;

  std::int64_t rounds_, chunk_;
  std::uint64_t seed_;
  std::string stream_;
};

}  // namespace nystrom
