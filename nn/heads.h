// What stands on the encoder: one small module a task, with Hugging Face's names, and its loss.
// Logits are in the accumulate type (f32 of bf16 and f16): rounded ones would tie, and metrics
// would take the ties for the model's.
#pragma once

#include "nn/encoder.h"

namespace nystrom {

/// dense → activation → LayerNorm → decoder tied to the word embeddings: [r, hidden] → [r,
/// vocab_size], for any rows.
class MaskedLmHead {
 public:
  MaskedLmHead(const Scope& scope, const ModelConfig& config, const Parameter& words);
  Var operator()(const Var& hidden) const;

 private:
  Activation activation_;
  Linear dense_;
  LayerNorm norm_;
  Parameter words_, bias_;
};

/// Dropout → dense → activation → dropout → out_proj, on one vector a sequence: [b, hidden] → [b,
/// labels]. The vector is the first token's, the last valid step's of the sequence block, or the
/// mean of all (`pooling`). With towers it is that of tower_features, 4 · hidden wide.
class SequenceClassificationHead {
 public:
  SequenceClassificationHead(const Scope& scope, const ModelConfig& config);
  Var operator()(const Var& pooled, const RunContext& run) const;

 private:
  Activation activation_;
  Dropout input_dropout_, dropout_;
  Linear dense_, out_proj_;
};

/// [a, b, a ∘ b, a − b] of the vectors of two towers, the rows 2i and 2i + 1: [2b, hidden] → [b, 4
/// · hidden]. Tay et al., "Long Range Arena", ICLR 2021.
Var tower_features(const Var& pooled);

/// Dropout → classifier at every position: [b, n, hidden] → [b, n, labels].
class TokenClassificationHead {
 public:
  TokenClassificationHead(const Scope& scope, const ModelConfig& config);
  Var operator()(const Var& hidden, const RunContext& run) const;

 private:
  Dropout dropout_;
  Linear classifier_;
};

/// Of the first token: pre_classifier → ReLU → classifier to one score: [b · c, hidden] → [b · c].
class MultipleChoiceHead {
 public:
  MultipleChoiceHead(const Scope& scope, const ModelConfig& config);
  Var operator()(const Var& first_token) const;

 private:
  Linear pre_classifier_, classifier_;
};

/// Cross-entropy over all rows: logits […, c], labels […] i64. See cross_entropy for normaliser.
Var classification_loss(const Var& logits, const Tensor& labels, double normaliser = 0);

/// ½ (CE start + CE end): logits [b, n] each, positions [b] i64; those outside the sequence are
/// clamped to n and then ignored. `normaliser` as in cross_entropy, of starts and of ends alike.
Var question_answering_loss(const Var& start_logits, const Var& end_logits,
                            const Tensor& start_positions, const Tensor& end_positions,
                            double normaliser = 0);

}  // namespace nystrom
