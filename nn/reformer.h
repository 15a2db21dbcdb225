// Reformer (Kitaev et al., ICLR 2020, arXiv 2001.04451): each query attends to the keys that hash
// like it.
#pragma once

#include "nn/attention.h"

namespace nystrom {

/// Locality-sensitive hashing attention. Queries are the keys too: a key is its query, scaled to
/// length √d. Each of num_hashes rounds puts every token into the bucket argmax [x R; −x R] of a
/// random rotation R, sorts tokens by bucket and position, and cuts that order into chunks of
/// bucket_size; a query sees its chunk and the one before it. Over all rounds this is one softmax,
/// in which a key seen in N rounds counts once (its score gets −log N), and the query itself only
/// if there is no other key (its score gets −10⁵).
///
/// Of l tokens there are 2 ⌈l / bucket_size⌉ buckets, or, beyond 64, about as many as products of
/// the buckets of two smaller rotations. Tokens alone are hashed, so padding and company change
/// nothing. The rotations of a layer follow from random_seed and its name, and are never redrawn
/// (the paper draws them at each step). Hashes are constants: no gradient flows through them.
/// Sorting happens on the CPU. Scores are kept: O(n · num_hashes · bucket_size) memory.
class ReformerAttention : public AttentionMethod {
 public:
  ReformerAttention(const Scope& scope, const ModelConfig& config);
  Var operator()(const AttentionInputs& inputs) const override;

 private:
  /// The bucket of each token in each round: [b, h, n, rounds], −1 at padding.
  std::vector<std::int64_t> buckets(const Tensor& queries, const SequenceMask& mask) const;

  std::int64_t rounds_, chunk_;
  std::uint64_t seed_;
  std::string stream_;
};

}  // namespace nystrom
