// The attention kinds of other papers, in O(n), for comparison. They have no form for ragged rows:
// they compute sequence by sequence.
#pragma once

#include <functional>

#include "nn/layers.h"

namespace nystrom {

/// The attention to b sequences of n tokens, whose positions are `places`: k, v [b, h, n, d], q of
/// these tokens behind rows of padding → q's shape, or that of the tokens alone.
using TokenAttention = std::function<Var(const Var& q, const Var& k, const Var& v,
                                         const std::vector<std::int64_t>& places)>;

// Attention through features φ of queries and keys. Since (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V), the
// matrix φ(Q) φ(K)ᵀ is never formed. Features and sums are computed in the accumulate type, and
// rounded once at the end.

/// softmax(Q over features) · softmax(K over positions)ᵀ · V: "efficient attention" (Shen et al.,
/// arXiv 1812.01243). Each row is a mean of values.
Var double_softmax_attention(const Var& q, const Var& k, const Var& v,
                             const std::vector<std::int64_t>& places);

/// Linear attention with φ(x) = elu(x) + 1, normalised by rows (Katharopoulos et al., ICML 2020,
/// arXiv 2006.16236).
Var linear_attention(const Var& q, const Var& k, const Var& v,
                     const std::vector<std::int64_t>& places);

/// FAVOR+ (Choromanski et al., ICLR 2021, arXiv 2009.14794, lemma 1). φ(x) = exp(w x − |x|²/2) with
/// random orthogonal w is an unbiased estimate of the softmax kernel. x are queries and keys
/// divided by d^¼.
///
/// The features of a layer follow from random_seed and its name, and are never redrawn. The largest
/// score of each feature and of each query is subtracted, which cancels in the quotient. Nothing
/// overflows, and no constant is needed to avoid a division by 0.
TokenAttention performer_attention(const Scope& scope, const ModelConfig& config);

/// `count` random directions in `width` dimensions, [count, width] f64, each distributed as N(0,
/// I). Directions are orthogonal within blocks of `width`, and their lengths are independent. They
/// follow from the seed and the name.
Tensor orthogonal_features(std::uint64_t seed, const std::string& name, std::int64_t count,
                           std::int64_t width);

/// Linformer (Wang et al., arXiv 2006.04768): keys and values are projected along the sequence to k
/// rows, softmax(Q (E K)ᵀ / √d) F V with trained E and F [k, max_position_embeddings]: one pair a
/// layer, or with per_head one pair a head. A shorter sequence uses the first columns; a longer one
/// is an InputError. Padded keys and values count as 0, so results do not depend on padding on the
/// right or on other samples of the batch. They do depend on the position of a token in its row,
/// because each position has its own weights.
TokenAttention linformer_attention(const Scope& scope, const ModelConfig& config);

/// Reformer (Kitaev et al., ICLR 2020, arXiv 2001.04451): locality-sensitive hashing attention.
/// Queries also serve as keys: a key is its query, scaled to length √d. Each of num_hashes rounds
/// assigns every token to the bucket argmax [x R; −x R] of a random rotation R. It sorts tokens by
/// bucket and position, and divides them into chunks of bucket_size. A query attends to its own
/// chunk and the one before it.
///
/// One softmax covers all rounds. A key that appears in N rounds counts once: its score is reduced
/// by log N. The query's own key counts only without any other key: its score is reduced by 10⁵.
///
/// For l tokens there are 2 ⌈l / bucket_size⌉ buckets. Above 64, buckets are pairs of buckets of
/// two smaller rotations, about as many in all. Only tokens are hashed, so results do not depend on
/// padding or on the other samples of the batch. The rotations of a layer follow from random_seed
/// and its name, and are never redrawn (the paper draws them at each step). Hashes are constants
/// without gradients. The CPU sorts. Scores are kept: O(n · num_hashes · min(n, bucket_size))
/// memory.
TokenAttention reformer_attention(const Scope& scope, const ModelConfig& config);

}  // namespace nystrom
