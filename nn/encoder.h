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

/// Positions of a batch [b, n], for the last layer to compute no others.
struct ChosenPositions {
  Tensor index{};       ///< [r] i64, into the flattened [b · n]; undefined: all positions
  Tensor sample_ids{};  ///< [r, 2] i64, for dropout (SampleRows); undefined without dropout

  /// The rows of x [b, n, c] at these positions: [r, c], or x itself for all.
  Var rows_of(const Var& x) const;
  /// The context of a layer's modules that see these rows alone.
  RunContext of(const RunContext& run) const;
};

/// One encoder layer, post-LN as BERT's or pre-LN: [b, n, hidden] → [b, n, hidden].
class EncoderLayer {
 public:
  EncoderLayer(const Scope& scope, const ModelConfig& config);
  /// The layer's output for x [b, n, hidden], of the same shape. With `positions` [r,
  /// hidden]: dense layers, normalisations and dropouts see these rows alone.
  Var operator()(const Var& x, const SequenceMask& mask, const RunContext& run,
                 const ChosenPositions& positions = {}) const;

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
  /// The last hidden state for `input`, [b, n, hidden]. With `positions` only theirs: [r, hidden],
  /// the same numbers for less work in the last layer.
  Var operator()(const ModelInput& input, const SequenceMask& mask, const RunContext& run,
                 const ChosenPositions& positions = {}) const;
  /// The embeddings of the encoder.
  const Embeddings& embeddings() const { return embeddings_; }

 private:
  Embeddings embeddings_;
  std::vector<EncoderLayer> layers_;
  std::vector<std::int64_t> places_;  // offset of each layer's first parameter in the slabs
};

}  // namespace nystrom
