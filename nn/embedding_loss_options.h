// The options of losses of vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/fields.h"

namespace nystrom {

/// The losses. See embedding_loss.
enum class EmbeddingLoss { multiple_negatives_ranking, cosent, angle, cosine_similarity, triplet };
/// The distance of two vectors in the triplet loss.
enum class TripletDistance { euclidean, cosine };

/// The options `embedding_loss`.
struct EmbeddingLossOptions {
  EmbeddingLoss name = EmbeddingLoss::multiple_negatives_ranking;
  double temperature = 0.05;
  bool symmetric = false;
  std::optional<double> false_negative_margin = {};
  std::optional<double> triplet_margin = {};
  TripletDistance triplet_distance = TripletDistance::euclidean;
  std::vector<std::int64_t> matryoshka_dimensions = {};
  bool operator==(const EmbeddingLossOptions&) const = default;

  /// triplet_margin or its default. Distances of vectors of length 1 differ by at most 2.
  double margin(bool unit_vectors) const {
    const bool bounded = unit_vectors || triplet_distance == TripletDistance::cosine;
    return triplet_margin.value_or(bounded ? 0.5 : 5);
  }
  /// Whether the loss learns from a score of each pair, not from the texts' roles alone.
  bool needs_scores() const {
    return name != EmbeddingLoss::multiple_negatives_ranking && name != EmbeddingLoss::triplet;
  }
};

template <class V>
void fields(V& v, EmbeddingLossOptions& c) {
  v(c.name, "name",
    "multiple_negatives_ranking: each text must find its positive among all of the batch; cosent, "
    "angle: similarities in the order of the scores; cosine_similarity: similarities equal to the "
    "scores; triplet: the positive nearer than the negative");
  v(c.temperature, "temperature",
    "multiple_negatives_ranking, cosent, angle: similarities are divided by it", positive_in_f32);
  v(c.symmetric, "symmetric", "multiple_negatives_ranking: each positive must also find its text");
  v(c.false_negative_margin, "false_negative_margin",
    "multiple_negatives_ranking: texts of the batch that are more similar than the positive plus "
    "this are left out, as probable positives; null: none are",
    between(-2, 2));
  v(c.triplet_margin, "triplet_margin",
    "triplet: how much nearer the positive must be than the negative; null: 0.5, and 5 for "
    "euclidean distances of vectors that are not of length 1",
    not_negative);
  v(c.triplet_distance, "triplet_distance", "triplet: euclidean, or cosine (1 − similarity)");
  v(c.matryoshka_dimensions, "matryoshka_dimensions",
    "the loss is a sum over vectors cut to these lengths, so that short vectors work too; empty: "
    "whole vectors alone",
    at_least(1));
}

}  // namespace nystrom
