// A whole model: encoder and head, as config.json names it.
#pragma once

#include <optional>

#include "nn/heads.h"

namespace nystrom {

/// What a model computes. Undefined Vars are outputs that its head does not have.
struct ModelOutput {
  Var last_hidden_state;  ///< [b, n, hidden]
  Var logits;  ///< masked LM [b, n, vocab]; classification [b, labels], of towers [b / 2, labels];
               ///< tokens [b, n, labels]; multiple choice [rows]
  Var start_logits, end_logits;  ///< question answering: [b, n] each
  Var output;  ///< sequence block: [b, hidden], the last valid time step; zeros for an empty row
};

/// Loss and predictions of a masked-LM batch, at the chosen positions alone.
struct MaskedLmOutput {
  Var loss;            ///< [1]
  Tensor predictions;  ///< [chosen] i64: the argmax token
  Tensor labels;       ///< [chosen] i64, on the CPU
  Var order_logits{};  ///< [b, 2]: the segments stand as in the text, or exchanged; undefined
                       ///< without the sentence-order head
};

/// Declares its parameters in a store of its own; allocate that, and give it values, before calling
/// the model.
class Model {
 public:
  explicit Model(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  /// Inputs, positions and labels may lie on the CPU: they are copied to where the parameters are.
  ModelOutput operator()(const ModelInput& input, const RunContext& run = {}) const;

  /// Logits of the masked-LM head at some positions alone: positions [r] i64, counted through the
  /// rows of the batch → [r, vocab].
  Var masked_lm_logits(const ModelInput& input, const Tensor& positions,
                       const RunContext& run = {}) const;

  /// Mean cross-entropy of the masked tokens: labels [b, n] i64, ignore_index where nothing is
  /// asked. The head runs on the chosen positions only. `normaliser` as in cross_entropy.
  MaskedLmOutput masked_lm(const ModelInput& input, const Tensor& labels, double normaliser,
                           const RunContext& run) const;

 private:
  /// What a pass computes on, where the parameters are.
  struct Pass;

  SequenceMask mask_of(const ModelInput& input) const;
  Var encode_for_masked_lm(const ModelInput& input, const RunContext& run) const;
  Var masked_lm_head(const Var& hidden, const Tensor& positions) const;
  Var last_valid_step(const Var& hidden, const SequenceMask& mask) const;
  Var classify(const ModelOutput& out, const Pass& pass) const;

  ModelConfig config_;
  ParameterStore store_;
  Encoder encoder_;
  std::optional<MaskedLmHead> masked_lm_;
  std::optional<Linear> sentence_order_;
  std::optional<SequenceClassificationHead> sequence_;
  std::optional<TokenClassificationHead> tokens_;
  std::optional<Linear> questions_;
  std::optional<MultipleChoiceHead> choice_;
};

}  // namespace nystrom
