#include "nn/embedding_loss.h"

#include <numeric>

#include "core/check.h"

namespace nystrom {

Var unit_rows(const Var& x) { return x / reshape(row_norms(x), {x.dim(0), 1}); }

namespace {

/// A penalty that takes an entry out of a softmax.
constexpr double excluded = -1e9;

Var cosines(const Var& a, const Var& b) { return sum(unit_rows(a) * unit_rows(b), 1); }

/// Σ −log softmax(logits[i])[i] / rows, for logits [b, c ≥ b].
Var diagonal_cross_entropy(const Var& logits) {
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < logits.dim(0); ++i) own.push_back(i);
  return cross_entropy(logits, Tensor::from(own, {logits.dim(0)}));
}

/// Texts that must find their positives among candidates: candidate i is the positive of text i.
class Ranking {
 public:
  Ranking(const EmbeddingLossOptions& options, const EmbeddingTargets& targets)
      : options_(options), targets_(targets) {}

  /// The loss of the texts of column 0, with all other columns as candidates.
  Var operator()(const std::vector<Var>& columns) const {
    const Var texts = unit_rows(columns[0]);
    const Var candidates = unit_rows(concat({columns.begin() + 1, columns.end()}, 0));
    std::vector<std::size_t> others(columns.size() - 1);
    std::iota(others.begin(), others.end(), std::size_t{1});
    const Var forward = loss(texts, candidates, 0, others);
    if (!options_.symmetric) return forward;
    return 0.5 * (forward + loss(slice(candidates, 0, 0, texts.dim(0)), texts, 1, {0}));
  }

 private:
  /// `from` is column `own`; `to` holds the columns in `others`, one behind the other.
  Var loss(const Var& from, const Var& to, std::size_t own,
           const std::vector<std::size_t>& others) const {
    const Var similarities = matmul(from, transpose(to, 0, 1));
    const Var logits = similarities / options_.temperature;
    if (targets_.texts.empty() && !options_.false_negative_margin)
      return diagonal_cross_entropy(logits);
    return diagonal_cross_entropy(logits +
                                  Var(penalties(similarities.value().contiguous(), own, others)));
  }

  /// [b, c]: 0, or `excluded` for candidates that are no negatives of a text.
  Tensor penalties(const Tensor& similarities, std::size_t own,
                   const std::vector<std::size_t>& others) const {
    const std::vector<double> all = similarities.to_doubles();
    const auto samples = static_cast<std::size_t>(similarities.dim(0)),
               candidates = static_cast<std::size_t>(similarities.dim(1));
    std::vector<double> result(all.size(), 0);
    for (std::size_t i = 0; i < samples; ++i) {
      for (std::size_t j = 0; j < candidates; ++j) {
        if (i == j) continue;
        const double positive = all[i * candidates + i];
        const bool too_similar =
            options_.false_negative_margin &&
            all[i * candidates + j] > positive + *options_.false_negative_margin;
        if (too_similar || is_alike(i, own, others[j / samples], j % samples, others[0]))
          result[i * candidates + j] = excluded;
      }
    }
    return Tensor::from(result, similarities.shape())
        .cast(similarities.dtype())
        .to(similarities.device());
  }

  /// Whether text `other` of column `column` is alike to sample i's text, or is its positive.
  bool is_alike(std::size_t i, std::size_t own, std::size_t column, std::size_t other,
                std::size_t positive) const {
    if (targets_.texts.empty()) return false;
    const std::int64_t text = targets_.texts[column][other];
    return text == targets_.texts[positive][i] || targets_.alike(targets_.texts[own][i], text);
  }

  const EmbeddingLossOptions& options_;
  const EmbeddingTargets& targets_;
};

/// log(1 + Σ exp(sᵢ − sⱼ)) over all i, j with scores[i] < scores[j], for s [b].
Var order_loss(const Var& s, const Tensor& scores) {
  const std::int64_t count = s.dim(0);
  std::vector<double> penalties;
  const std::vector<double> score = scores.to_doubles();
  for (const double low : score) {
    for (const double high : score) penalties.push_back(low < high ? 0 : excluded);
  }
  const auto constant = [&](const std::vector<double>& values) {
    return Var(
        Tensor::from(values, {1, std::ssize(values)}).cast(s.dtype()).to(s.value().device()));
  };
  const Var differences = reshape(s, {count, 1}) - reshape(s, {1, count});
  // The cross-entropy of an entry 0 is log(1 + Σ exp) of all others.
  const Var others = reshape(differences, {1, count * count}) + constant(penalties);
  return cross_entropy(concat({constant({0}), others}, 1),
                       Tensor::from(std::vector<std::int64_t>{0}, {1}));
}

/// |cos + sin| of two vectors as complex numbers, whose imaginary parts are their second halves:
/// [b, d] → [b].
Var angle_similarities(const Var& a, const Var& b) {
  const auto even = [](const Var& x) {
    if (x.dim(1) % 2 == 0) return x;
    return concat({x, Var(Tensor::zeros({x.dim(0), 1}, x.dtype(), x.value().device()))}, 1);
  };
  const Var x = even(unit_rows(a)), y = even(unit_rows(b));
  const std::int64_t half = x.dim(1) / 2;
  const auto real = [&](const Var& z) { return slice(z, 1, 0, half); };
  const auto imaginary = [&](const Var& z) { return slice(z, 1, half, 2 * half); };
  const Var z = sum(x * y, 1) + sum(imaginary(x) * real(y) - real(x) * imaginary(y), 1);
  return relu(z) + relu(-z);
}

Var triplet(const EmbeddingLossOptions& options, const std::vector<Var>& columns) {
  const auto distance = [&](const Var& other) {
    return options.triplet_distance == TripletDistance::euclidean ? row_norms(columns[0] - other)
                                                                  : -cosines(columns[0], other) + 1;
  };
  const double margin = options.margin(!options.matryoshka_dimensions.empty());
  return mean(relu(distance(columns[1]) - distance(columns[2]) + margin));
}

Var loss_of_whole_vectors(const EmbeddingLossOptions& options, const std::vector<Var>& columns,
                          const EmbeddingTargets& targets) {
  switch (options.name) {
    case EmbeddingLoss::multiple_negatives_ranking: return Ranking(options, targets)(columns);
    case EmbeddingLoss::cosent:
      return order_loss(cosines(columns[0], columns[1]) / options.temperature, targets.scores);
    case EmbeddingLoss::angle:
      return order_loss(angle_similarities(columns[0], columns[1]) / options.temperature,
                        targets.scores);
    case EmbeddingLoss::cosine_similarity:
      return mean_squared_error(cosines(columns[0], columns[1]), targets.scores);
    case EmbeddingLoss::triplet: return triplet(options, columns);
  }
  return {};
}

void check(const EmbeddingLossOptions& options, const std::vector<Var>& columns,
           const Tensor& scores) {
  const bool ranking = options.name == EmbeddingLoss::multiple_negatives_ranking;
  const std::size_t expected = options.name == EmbeddingLoss::triplet ? 3 : 2;
  require(ranking ? columns.size() >= expected : columns.size() == expected,
          "embedding_loss: {} takes {} columns of vectors, got {}", enum_name(options.name),
          ranking ? "2 or more" : std::to_string(expected), columns.size());
  for (const Var& column : columns)
    require(column.rank() == 2 && column.shape() == columns[0].shape(),
            "embedding_loss: columns {} and {} differ; expected [b, d] for all", columns[0].shape(),
            column.shape());
  require(
      !options.needs_scores() || (scores.defined() && scores.shape() == Shape{columns[0].dim(0)}),
      "embedding_loss: {} needs scores [{}]", enum_name(options.name), columns[0].dim(0));
}

}  // namespace

Var embedding_loss(const EmbeddingLossOptions& options, const std::vector<Var>& columns,
                   const EmbeddingTargets& targets) {
  check(options, columns, targets.scores);
  if (options.matryoshka_dimensions.empty())
    return loss_of_whole_vectors(options, columns, targets);
  Var total;
  for (const std::int64_t dimensions : options.matryoshka_dimensions) {
    std::vector<Var> cut;
    for (const Var& column : columns) cut.push_back(unit_rows(slice(column, 1, 0, dimensions)));
    const Var loss = loss_of_whole_vectors(options, cut, targets);
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

}  // namespace nystrom
