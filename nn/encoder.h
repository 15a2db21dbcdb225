// Embeddings and the stack of layers, with Hugging Face's names and shapes.
#pragma once

#include <optional>
#include <vector>

#include "core/batch.h"
#include "nn/attention.h"

namespace nystrom {

/// word + position + token type → LayerNorm → dropout → projection, if embedding_size differs from
/// hidden_size; for input features projection → dropout. The result is [b, n, hidden].
class Embeddings {
 public:
  Embeddings(const Scope& scope, const ModelConfig& config);
  /// The embeddings of `input`, [b, n, hidden].
  Var operator()(const ModelInput& input, const SequenceMask& mask, const RunContext& run) const;
  /// The word embedding [vocab_size, embedding_width], which the masked-LM decoder shares.
  const Parameter& words() const { return *words_; }

 private:
  Var embed_tokens(const ModelInput& input) const;
  Var embed_positions(const Tensor& ids) const;

  std::int64_t padding_id_, first_position_row_;
  bool positions_skip_padding_;
  std::optional<Parameter> words_, positions_, types_;
  std::optional<LayerNorm> norm_;
  std::optional<Linear> projection_;  // of features, or of embeddings of another width
  Dropout dropout_;
};

/// What of a batch [b, n] is computed.
struct EncoderRows {
  SequenceMask mask;
  TokenRows tokens{};  ///< the rows of all layers
  TokenRows read{};    ///< those of them that the head reads, for the last layer
};

/// One encoder layer, post-LN as BERT's or pre-LN.
class EncoderLayer {
 public:
  /// Layer `number` of a model of `config`.
  EncoderLayer(const Scope& scope, const ModelConfig& config, std::int64_t number);
  /// The layer's output for x [b, n, hidden], or for rows.tokens, of the same shape. With `last`,
  /// of rows.read only: [r, hidden].
  Var operator()(const Var& x, const EncoderRows& rows, bool last, const RunContext& run) const;

 private:
  Var feed_forward(const Var& x) const;

  std::int64_t number_;
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
  /// The last hidden state of rows.read, in their layout; of all positions [b, n, hidden], zeros at
  /// padding that rows.tokens leaves out.
  Var operator()(const ModelInput& input, const EncoderRows& rows, const RunContext& run) const;
  /// The embeddings of the encoder.
  const Embeddings& embeddings() const { return embeddings_; }

 private:
  Embeddings embeddings_;
  std::vector<EncoderLayer> layers_;
  std::vector<std::int64_t> places_;  // offset of each layer's first parameter in the slabs
};

}  // namespace nystrom
