#include "nn/heads.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace nystrom {

HeadTransform::HeadTransform(const Scope& scope, const ModelConfig& config, std::int64_t width)
    : activation_(config.transform_activation()),
      dense_(scope / "dense", config.hidden_size, width, config.bias),
      norm_(scope / "LayerNorm", width, config.layer_norm_eps, config.bias) {}

Var HeadTransform::operator()(const Var& hidden) const {
  return norm_(activate(activation_, dense_(hidden)));
}

MaskedLmHead::MaskedLmHead(const Scope& scope, const ModelConfig& config, const Parameter& words)
    : transform_(scope / "transform", config, config.embedding_width()),
      decoder_(config.tie_word_embeddings
                   ? words
                   : (scope / "decoder")
                         .parameter("weight", {config.vocab_size, config.embedding_width()})),
      bias_(scope.parameter("bias", {config.vocab_size}, {Init::Kind::zeros}, false)) {}

Var MaskedLmHead::operator()(const Var& hidden) const {
  const Var x = transform_(hidden);
  return linear_unrounded(factor_of(decoder_, x), decoder_, bias_);
}

Var ClassifierHead::operator()(const Var& x, const RunContext& run) const {
  Var y = before ? (*before)(x, run) : x;
  if (dense) y = activate(activation, (*dense)(y));
  if (between) y = (*between)(y, run);
  return out.unrounded(y);
}

namespace {

/// The first layer of a head that has no transform before it.
std::optional<Linear> dense_of(const Scope& scope, const ModelConfig& config, std::int64_t in) {
  if (config.head_transform) return std::nullopt;
  return Linear(scope, in, config.hidden_size);
}

ClassifierHead sequence_classification_head(const Scope& scope, const ModelConfig& config) {
  // Without a dense layer the second dropout is the one.
  const Dropout before(scope, config.hidden_dropout_prob),
      between(scope, config.hidden_dropout_prob);
  std::optional<Linear> dense = dense_of(
      scope / "dense", config, config.has_towers() ? 4 * config.hidden_size : config.hidden_size);
  Linear out(scope / "out_proj", config.hidden_size, config.num_labels());
  // The bias of a value is about the mean of all, of which 16 bits may lose more than they vary.
  if (config.num_labels() == 1) out.keep_bias_exact();
  return {.before = dense ? std::optional(before) : std::nullopt,
          .dense = dense,
          .activation = config.classifier_activation(),
          .between = between,
          .out = std::move(out)};
}

}  // namespace

std::optional<ClassifierHead> make_head(const Scope& root, const ModelConfig& config) {
  const std::int64_t width = config.hidden_size;
  switch (config.head) {
    case Head::replaced_tokens: {
      const Scope scope = root / "discriminator_predictions";
      Linear dense(scope / "dense", width, width);
      return ClassifierHead{.dense = std::move(dense),
                            .activation = config.hidden_act,
                            .out = Linear(scope / "dense_prediction", width, 1)};
    }
    case Head::masked_features:
      return ClassifierHead{.out = Linear(root / "feature_predictions", width, *config.embed_dim)};
    case Head::sequence_classification:
      return sequence_classification_head(root / "classifier", config);
    case Head::token_classification:
      return ClassifierHead{.before = Dropout(root, config.hidden_dropout_prob),
                            .out = Linear(root / "classifier", width, config.num_labels())};
    case Head::question_answering:
      return ClassifierHead{.out = Linear(root / "qa_outputs", width, 2)};
    case Head::multiple_choice: {
      std::optional<Linear> dense = dense_of(root / "pre_classifier", config, width);
      return ClassifierHead{.dense = std::move(dense),
                            .activation = config.classifier_activation(),
                            .out = Linear(root / "classifier", width, 1)};
    }
    case Head::masked_lm:
    case Head::none: break;
  }
  return {};
}

namespace {

/// softmax of keys [r, 1, gates] · score [1, gates] over the rows of each sequence: [r] f64.
Tensor pooling_weights(const Tensor& keys, const Tensor& score,
                       const std::vector<RowRange>& sequences) {
  const std::vector<double> k = keys.to_doubles(), w = score.to_doubles();
  std::vector<double> weights(static_cast<std::size_t>(keys.dim(0)));
  for (const RowRange& rows : sequences) {
    const std::span<double> own = std::span(weights).subspan(static_cast<std::size_t>(rows.begin),
                                                             static_cast<std::size_t>(rows.size()));
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t row = (static_cast<std::size_t>(rows.begin) + i) * w.size();
      for (std::size_t j = 0; j < w.size(); ++j) own[i] += w[j] * k[row + j];
    }
    const double largest = own.empty() ? 0 : std::ranges::max(own);
    double total = 0;
    for (double& weight : own) total += weight = std::exp(weight - largest);
    for (double& weight : own) weight /= total;
  }
  return Tensor::from(weights, {keys.dim(0)});
}

}  // namespace

GatedAttentionPooling::GatedAttentionPooling(const Scope& scope, const ModelConfig& config)
    : value_(scope / "value", config.hidden_size, gates),
      gate_(scope / "gate", config.hidden_size, gates),
      score_((scope / "score").parameter("weight", {1, gates})) {}

Var GatedAttentionPooling::operator()(const Var& rows, const std::vector<RowRange>& sequences,
                                      const RunContext& run) const {
  const Device device = rows.value().device();
  const Var sigmoid = 0.5 * tanh(0.5 * gate_(rows)) + 0.5;
  const Var keys = reshape(tanh(value_(rows)) * sigmoid, {rows.dim(0), 1, gates});
  if (run.observe_pooling)
    run.observe_pooling(pooling_weights(keys.value(), score_.var().value(), sequences));
  std::vector<Var> scores;
  std::vector<RowRange> queries;
  for (std::int64_t i = 0; i < std::ssize(sequences); ++i) {
    scores.push_back(score_);
    queries.push_back({i, i + 1});
  }
  const Var pooled = attention(reshape(concat(scores, 0), {std::ssize(scores), 1, gates}), keys,
                               reshape(rows, {rows.dim(0), 1, rows.dim(1)}),
                               {.scale = 1,
                                .out = rows.dtype(),
                                .queries = RowSpans(queries, device),
                                .keys = RowSpans(sequences, device)});
  return reshape(pooled, {std::ssize(scores), rows.dim(1)});
}

Var tower_features(const Var& pooled) {
  require(pooled.dim(0) % 2 == 0, "towers need two rows a sample, got {} rows", pooled.dim(0));
  const std::int64_t pairs = pooled.dim(0) / 2, width = pooled.dim(1);
  const Var both = reshape(pooled, {pairs, 2 * width});
  const Var a = slice(both, 1, 0, width), b = slice(both, 1, width, 2 * width);
  return concat({a, b, a * b, a - b}, 1);
}

Var classification_loss(const Var& logits, const Tensor& labels, double normaliser) {
  const std::int64_t classes = logits.dim(-1), rows = logits.value().numel() / classes;
  require(labels.numel() == rows, "labels are {}, but the logits {}", labels.shape(),
          logits.shape());
  return cross_entropy(reshape(logits, {rows, classes}), labels.contiguous().reshape({rows}),
                       normaliser);
}

Var multi_label_loss(const Var& logits, const Tensor& labels, double normaliser) {
  require(labels.shape() == logits.shape(), "labels are {}, but the logits {}", labels.shape(),
          logits.shape());
  // A label holds with probability sigmoid(x), which is the softmax of (0, x).
  const std::int64_t decisions = logits.value().numel();
  const Tensor places = Tensor::from(std::vector<double>{0, 1}, {1, 2}).cast(logits.dtype());
  const Var pairs = reshape(logits, {decisions, 1}) * Var(places.to(logits.value().device()));
  return classification_loss(pairs, labels, normaliser * static_cast<double>(logits.dim(1)));
}

namespace {

Tensor clamped(const Tensor& positions, std::int64_t length) {
  std::vector<std::int64_t> result;
  for (const double p : positions.to_doubles()) {
    const auto position = std::clamp(static_cast<std::int64_t>(p), std::int64_t{0}, length);
    result.push_back(position == length ? ignore_index : position);
  }
  return Tensor::from(result, positions.shape()).to(positions.device());
}

}  // namespace

Var question_answering_loss(const Var& start_logits, const Var& end_logits,
                            const Tensor& start_positions, const Tensor& end_positions,
                            double normaliser) {
  const std::int64_t length = start_logits.dim(1);
  const Var start = cross_entropy(start_logits, clamped(start_positions, length), normaliser);
  const Var end = cross_entropy(end_logits, clamped(end_positions, length), normaliser);
  return 0.5 * (start + end);
}

}  // namespace nystrom
