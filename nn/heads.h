// Heads: one small module for each task, with Hugging Face's names, and its loss. Logits have the
// accumulate type (f32 for bf16 and f16). Rounded logits would tie, and metrics would count ties
// that the model does not have.
#pragma once

#include "core/row_spans.h"
#include "nn/layers.h"

namespace nystrom {

/// dense → transform_act → LayerNorm: […, hidden] → […, width].
class HeadTransform {
 public:
  HeadTransform(const Scope& scope, const ModelConfig& config, std::int64_t width);
  /// […, hidden] → […, width].
  Var operator()(const Var& hidden) const;

 private:
  Activation activation_;
  Linear dense_;
  LayerNorm norm_;
};

/// HeadTransform → decoder: [r, hidden] → [r, vocab_size], for any rows. The decoder is the word
/// embeddings, or with tie_word_embeddings: false a table of its own.
class MaskedLmHead {
 public:
  MaskedLmHead(const Scope& scope, const ModelConfig& config, const Parameter& words);
  /// hidden [r, hidden] → logits [r, vocab_size].
  Var operator()(const Var& hidden) const;

 private:
  HeadTransform transform_;
  Parameter decoder_, bias_;
};

/// dropout → dense → activation → dropout → out, of which each may be absent but the last.
struct ClassifierHead {
  std::optional<Dropout> before{};
  std::optional<Linear> dense{};
  Activation activation{};  ///< behind dense
  std::optional<Dropout> between{};
  Linear out;

  /// […, in] → logits […, labels].
  Var operator()(const Var& x, const RunContext& run) const;
};

/// The head with labels, or of the objective, that config.json names; nothing for masked_lm and
/// none. With head_transform, which comes before, a head of one vector a sequence begins behind its
/// dense layer.
/// - replaced_tokens: dense → hidden_act → dense_prediction: [r, hidden] → [r, 1], positive where
///   another token is taken to have stood (ELECTRA's discriminator).
/// - masked_features: feature_predictions: [r, hidden] → [r, embed_dim], what a masked row holds.
/// - sequence_classification: dropout → dense → classifier_act → dropout → out_proj, on one
///   vector a sequence: [b, hidden] → [b, labels]. `pooling` selects the vector: the first token's
///   (last valid step's for features), or the mean of all. With towers it is tower_features,
///   4 · hidden wide.
/// - token_classification: dropout → classifier at every position: [b, n, hidden] → [b, n, labels].
/// - question_answering: qa_outputs at every position: [b, n, hidden] → [b, n, 2].
/// - multiple_choice: pre_classifier → classifier_act → classifier on the first token, which gives
///   one score a choice: [b · c, hidden] → [b · c, 1].
std::optional<ClassifierHead> make_head(const Scope& root, const ModelConfig& config);

/// The mean of a sequence's rows h, weighted by gated attention: softmax of w · (tanh(V h) ∘
/// sigmoid(U h)) over its rows (Ilse, Tomczak & Welling, ICML 2018), with 128 gates.
class GatedAttentionPooling {
 public:
  GatedAttentionPooling(const Scope& scope, const ModelConfig& config);
  /// rows [r, hidden] with a span a sequence → [b, hidden], zeros for a sequence without rows.
  Var operator()(const Var& rows, const std::vector<RowRange>& sequences,
                 const RunContext& run) const;
  static constexpr std::int64_t gates = 128;

 private:
  Linear value_, gate_;
  Parameter score_;
};

/// [a, b, a ∘ b, a − b] for the two vectors of each pair, which are rows 2i and 2i + 1: [2b,
/// hidden] → [b, 4 · hidden]. Tay et al., "Long Range Arena", ICLR 2021.
Var tower_features(const Var& pooled);

/// Cross-entropy over all rows: logits […, c], labels […] i64 → [1]. For `normaliser` see
/// cross_entropy.
Var classification_loss(const Var& logits, const Tensor& labels, double normaliser = 0);

/// Binary cross-entropy of labels that are judged one by one, the mean over those of a row: logits
/// [r, c], labels [r, c] i64 of 0 and 1 → [1]. `normaliser` is the number of rows; 0 stands for r.
Var multi_label_loss(const Var& logits, const Tensor& labels, double normaliser = 0);

/// ½ (CE start + CE end) → [1]: logits [b, n] each, positions [b] i64. Positions outside the
/// sequence are clamped to n and ignored. `normaliser` is that of cross_entropy, for starts and for
/// ends.
Var question_answering_loss(const Var& start_logits, const Var& end_logits,
                            const Tensor& start_positions, const Tensor& end_positions,
                            double normaliser = 0);

}  // namespace nystrom
