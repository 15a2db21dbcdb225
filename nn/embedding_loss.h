// Losses that make vectors of texts similar or different. Names and defaults are those of
// sentence-transformers, whose values and gradients these losses have.
#pragma once

#include <functional>
#include <vector>

#include "autograd/ops.h"
#include "nn/embedding_loss_options.h"

namespace nystrom {

/// The targets of a batch of b samples.
struct EmbeddingTargets {
  Tensor scores;  ///< [b], how similar the texts of a pair are; undefined for roles
  /// [column][sample]: the number of each text. Empty: all texts differ.
  std::vector<std::vector<std::int64_t>> texts;
  /// Whether two texts are alike, by number. multiple_negatives_ranking takes no text for a
  /// negative that is alike to a sample's first text, or equal to its positive.
  std::function<bool(std::int64_t, std::int64_t)> alike = std::equal_to<>();
};

/// The loss of a batch → [1]. `columns` holds the vectors of the first texts, of the second ones …:
/// [b, d] each, of one floating type. The number of columns is 2 or more for
/// multiple_negatives_ranking (text, positive, negatives), 3 for triplet, and 2 for all others.
///
/// - multiple_negatives_ranking: −log softmax of the similarities to all candidates of the batch,
///   at the own positive (van den Oord et al., arXiv 1807.03748).
/// - cosent: log(1 + Σ exp((sᵢ − sⱼ) / temperature)) over all pairs i, j of which j has the higher
///   score (Huang et al., IEEE/ACM TASLP 32, 2024).
/// - angle: the same with the angle similarity |cos + sin| (Li & Li, arXiv 2309.12871).
/// - cosine_similarity: the mean squared difference of similarities and scores.
/// - triplet: mean max(0, distance to the positive − distance to the negative + margin).
Var embedding_loss(const EmbeddingLossOptions& options, const std::vector<Var>& columns,
                   const EmbeddingTargets& targets);

/// x [b, d] with rows of length 1. A row of zeros stays one.
Var unit_rows(const Var& x);

}  // namespace nystrom
