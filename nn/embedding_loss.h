// Losses that make vectors of texts similar or different. Names and defaults are those of
// sentence-transformers, whose values and gradients these losses have.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/base/fields.h"
#include "core/base/problem.h"

namespace nystrom {

/// The losses. See embedding_loss.
enum class EmbeddingLoss { multiple_negatives_ranking, cosent, angle, cosine_similarity, triplet };
/// The distance of two vectors in the triplet loss.
enum class TripletDistance { euclidean, cosine };
/// The targets of a loss: none but the texts' roles, or a score for each pair.
enum class EmbeddingTarget { roles, scores };

std::span<const EnumName<EmbeddingLoss>> enum_names(EmbeddingLoss);
std::span<const EnumName<TripletDistance>> enum_names(TripletDistance);

/// The options `embedding_loss`.
struct EmbeddingLossOptions {
  EmbeddingLoss name = EmbeddingLoss::multiple_negatives_ranking;
  double temperature = 0.05;
  bool symmetric = false;
  std::optional<double> false_negative_margin;
  double triplet_margin = 5;
  TripletDistance triplet_distance = TripletDistance::euclidean;
  std::vector<std::int64_t> matryoshka_dimensions;

  /// What the loss learns from.
  EmbeddingTarget target() const {
    return name == EmbeddingLoss::multiple_negatives_ranking || name == EmbeddingLoss::triplet
               ? EmbeddingTarget::roles
               : EmbeddingTarget::scores;
  }
};

template <class V>
void fields(V& v, EmbeddingLossOptions& c) {
  v(c.name, "name",
    "multiple_negatives_ranking: each text must find its positive among all of the batch; cosent, "
    "angle: similarities in the order of the scores; cosine_similarity: similarities equal to the "
    "scores; triplet: the positive nearer than the negative");
  v(c.temperature, "temperature",
    "multiple_negatives_ranking, cosent, angle: similarities are divided by it", positive);
  v(c.symmetric, "symmetric", "multiple_negatives_ranking: each positive must also find its text");
  v(c.false_negative_margin, "false_negative_margin",
    "multiple_negatives_ranking: a text of the batch that is more similar than the positive plus "
    "this is taken for a positive too, and left out; null: none is",
    between(-2, 2));
  v(c.triplet_margin, "triplet_margin",
    "triplet: how much nearer the positive must be than the negative", not_negative);
  v(c.triplet_distance, "triplet_distance", "triplet: euclidean, or cosine (1 − similarity)");
  v(c.matryoshka_dimensions, "matryoshka_dimensions",
    "the loss is a sum over vectors cut to these lengths, so that short vectors work too; empty: "
    "whole vectors alone",
    at_least(1));
}

/// The targets of a batch of b samples.
struct EmbeddingTargets {
  Tensor scores;  ///< [b], how similar the texts of a pair are; undefined for roles
  /// [column][sample]: texts with equal values are alike. multiple_negatives_ranking takes none of
  /// them for the other's negative. Empty: all texts differ.
  std::vector<std::vector<std::int64_t>> alike;
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
