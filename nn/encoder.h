// Embeddings and the stack of layers, with Hugging Face's names and shapes.
#pragma once

#include <optional>
#include <vector>

#include "core/batch.h"
#include "nn/attention.h"

namespace nystrom {

/// word + position + token type → LayerNorm → dropout; for input features projection → dropout. The
/// result is [b, n, hidden].
class Embeddings {
 public:
  Embeddings(const Scope& scope, const ModelConfig& config);
  /// The embeddings of `input`, [b, n, hidden].
  Var operator()(const ModelInput& input, const SequenceMask& mask, const RunContext& run) const;
  /// The word embedding [vocab_size, hidden], which the masked-LM decoder shares.
  const Parameter& words() const { return *words_; }

 private:
  Var embed_tokens(const ModelInput& input) const;

  std::int64_t padding_row_;
  std::optional<Parameter> words_, positions_, types_;
  std::optional<LayerNorm> norm_;
  std::optional<Linear> projection_;
  Dropout dropout_;
};

/// The rows of x [b, n, c] at `positions` [r] i64, indices into the flattened [b · n]: [r, c]; x
/// itself where they are undefined.
Var at_positions(const Var& x, const Tensor& positions);

/// One encoder layer, post-LN as BERT's or pre-LN: [b, n, hidden] → [b, n, hidden].
class EncoderLayer {
 public:
  EncoderLayer(const Scope& scope, const ModelConfig& config);
  /// The layer's output for x [b, n, hidden], of the same shape. With `positions`, see Encoder.
  Var operator()(const Var& x, const SequenceMask& mask, const RunContext& run,
                 const Tensor& positions = {}) const;

 private:
  Var feed_forward(const Var& x) const;

  Norm norm_;
  Activation activation_;
  SelfAttention attention_;
  Linear attention_output_;
  LayerNorm attention_norm_;
  Dropout attention_dropout_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout output_dropout_;
};

/// The whole encoder, `nystromformer`: embeddings and layers, ids [b, n] → [b, n, hidden].
class Encoder {
 public:
  Encoder(const Scope& scope, const ModelConfig& config);
  /// The last hidden state for `input`, [b, n, hidden]. With `positions` [r] i64, indices into the
  /// flattened [b · n], only theirs: [r, hidden]. Without dropout the last layer then computes its
  /// dense layers for these alone.
  Var operator()(const ModelInput& input, const SequenceMask& mask, const RunContext& run,
                 const Tensor& positions = {}) const;
  /// The embeddings of the encoder.
  const Embeddings& embeddings() const { return embeddings_; }

 private:
  Embeddings embeddings_;
  std::vector<EncoderLayer> layers_;
  std::vector<std::int64_t> places_;  // offset of each layer's first parameter in the slabs
};

}  // namespace nystrom
