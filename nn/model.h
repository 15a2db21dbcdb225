// A whole model: the encoder and the head that config.json names.
#pragma once

#include <optional>

#include "nn/encoder.h"
#include "nn/heads.h"

namespace nystrom {

/// The outputs of a model for b sequences of at most n tokens, r in all. Outputs that its head does
/// not have are undefined Vars.
struct ModelOutput {
  /// [r, hidden]; of padded input [b, n, hidden]. With a class token it is [r + b, hidden], with
  /// the token's row in front of each sequence.
  Var last_hidden_state;
  /// Masked LM: [r, vocab], of padded input [b, n, vocab]. Token classification: the same for
  /// labels. Replaced tokens: [r], of padded input [b, n]. Masked features: [r, embed_dim], of
  /// padded input [b, n, embed_dim]. Classification: [b, labels], or with towers [b / 2, labels].
  /// Multiple choice: [b].
  Var logits;
  Var start_logits, end_logits;  ///< question answering: [b, n] each
  /// Sequence block: [b, hidden], the last valid time step; zeros for an empty row.
  Var output;
};

/// Loss and predictions of a masked-LM batch, at its masked tokens only.
struct MaskedLmOutput {
  Var loss;            ///< [1]
  Tensor predictions;  ///< [masked] i64: the argmax token
  Tensor labels;       ///< [masked] i64, on the CPU
  Var logits{};        ///< [masked, vocab]
  /// [b, 2]: whether the two segments are in order or exchanged. Undefined without the
  /// sentence-order head.
  Var order_logits{};
};

/// The divisors of the losses of a step of replaced-token detection, and the weight of the
/// second one.
struct ReplacedTokensScale {
  double masked = 1;  ///< the masked tokens of the whole step
  double tokens = 1;  ///< all its tokens
  double weight = 1;  ///< of the discriminator's loss
};

/// Losses and counts of a batch of replaced-token detection.
struct ReplacedTokensOutput {
  Var loss;                                   ///< [1]: the generator's + weight · discriminator's
  Tensor generator_loss, discriminator_loss;  ///< [1] each
  std::int64_t guessed = 0;   ///< masked tokens whose argmax the generator has right
  std::int64_t replaced = 0;  ///< tokens in whose place another one stands
  std::int64_t found = 0;     ///< those that the discriminator finds
  std::int64_t right = 0;     ///< tokens that it judges rightly
};

/// An encoder with its head. The constructor declares the parameters in the model's own store.
/// Allocate that store and give it values before you call the model.
class Model {
 public:
  /// Declares the parameters of `config`.
  explicit Model(const ModelConfig& config);

  /// The configuration that the model was built from.
  const ModelConfig& config() const { return config_; }
  /// The store of the model's parameters.
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  /// The forward pass. Inputs and labels may be on the CPU: they are copied to the parameters'
  /// device. An input that is moved here is freed as soon as it is embedded.
  ModelOutput operator()(ModelInput input, const RunContext& run = {}) const;

  /// Logits of the masked-LM head at some tokens only: p indices into the input's rows, of padded
  /// input into the flattened [b · n] → [p, vocab].
  Var masked_lm_logits(const ModelInput& input, const std::vector<std::int64_t>& elements,
                       const RunContext& run = {}) const;

  /// One vector a row, in the accumulate type: the hidden states pooled as `pooling` says, through
  /// the model's dense layers and projection, and not normalised: [b, vector_width]. A row without
  /// tokens gives zeros before these layers (cls, lasttoken: its first position).
  Var sentence_vectors(const ModelInput& input, SentencePooling pooling,
                       const RunContext& run = {}) const;

  /// Mean cross-entropy of the masked tokens: labels of the ids' shape, with ignore_index at all
  /// other tokens. The head runs on the masked positions only. `normaliser` is that of
  /// cross_entropy, and so is `run.z_loss`.
  MaskedLmOutput masked_lm(const ModelInput& input, const Tensor& labels, double normaliser,
                           const RunContext& run) const;

  /// Replaced-token detection (Clark et al., "ELECTRA", ICLR 2020) on a batch of masked_lm, with
  /// the generator of ModelConfig::generator. Its guesses for the masked tokens, drawn from
  /// softmax(logits), take their places, save [PAD], and the head tells of each token whether
  /// another stood there. `run.sample_ids` decide the draws, with seed and step.
  ReplacedTokensOutput replaced_tokens(const ModelInput& input, const Tensor& labels,
                                       const ReplacedTokensScale& scale,
                                       const RunContext& run) const;

  /// The squared error of what the model says of some rows of its features, which the caller has
  /// masked: their numbers, the sum of (said − target)² over all numbers of `rows` / `normaliser` →
  /// [1], in the accumulate type. `targets` are [p, embed_dim].
  Var masked_features(ModelInput input, const std::vector<std::int64_t>& rows,
                      const Tensor& targets, double normaliser, const RunContext& run) const;

 private:
  /// The inputs of a forward pass, on the parameters' device.
  struct Pass;

  Ragged batch_of(const ModelInput& input, Padding padding) const;
  Ragged batch_with_class_token(const ModelInput& input) const;
  Pass masked_lm_pass(const ModelInput& input, const RunContext& run) const;
  Var last_valid_step(const Var& hidden, const Ragged& batch) const;
  bool reads_first_token() const;
  /// Behind head_transform, if the model has it.
  Var transformed(const Var& hidden) const;
  Var pooled(const ModelOutput& out, const Var& hidden, const Pass& pass) const;
  Var classify(const Var& pooled, const Pass& pass) const;

  ModelConfig config_;
  ParameterStore store_;
  Encoder encoder_;
  std::optional<MaskedLmHead> masked_lm_;  // the generator's, if there is one
  std::optional<Encoder> generator_;
  std::optional<Linear> sentence_order_;
  std::optional<HeadTransform> transform_;  // of heads with labels
  std::optional<GatedAttentionPooling> gated_;
  std::optional<ClassifierHead> head_;  // of all heads but the masked-LM head
  /// Behind pooling: the dense layers and the projection, with their activations.
  std::vector<std::pair<Linear, Activation>> vector_layers_;
};

}  // namespace nystrom
