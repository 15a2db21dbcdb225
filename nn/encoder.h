// Embeddings and the stack of layers, with Hugging Face's names and shapes.
#pragma once

#include <optional>
#include <vector>

#include "core/batch.h"
#include "nn/ragged.h"

namespace nystrom {

/// word + position + token type → LayerNorm → dropout → projection, if embedding_size differs from
/// hidden_size; for input features projection → class token in front → dropout.
class Embeddings {
 public:
  Embeddings(const Scope& scope, const ModelConfig& config);
  /// The tables and the norm of `shared`, for a model of `config` with a dropout of its own, and a
  /// projection if its hidden_size is not their width.
  Embeddings(const Scope& scope, const ModelConfig& config, const Embeddings& shared);
  /// The embeddings of `input` at the rows of `batch`: [r, hidden] or, if it is dense, [b, n,
  /// hidden].
  Var operator()(const ModelInput& input, const Ragged& batch, const RunContext& run) const;
  /// The word embedding [vocab_size, embedding_width], which the masked-LM decoder shares.
  const Parameter& words() const { return *words_; }

 private:
  Var embed_tokens(const ModelInput& input, const Ragged& batch) const;
  Var embed_positions(const ModelInput& input, const Ragged& batch) const;

  std::int64_t padding_id_, first_position_row_;  // padding_id_ is -1 where there is none
  bool positions_skip_padding_;
  Var embed_features(const ModelInput& input, const Ragged& batch) const;

  std::optional<Parameter> words_, positions_, types_, class_token_;
  std::optional<LayerNorm> norm_;
  std::optional<Linear> projection_;  // of features, or of embeddings of another width
  Dropout dropout_;
};

/// The whole encoder, `nystromformer`: embeddings and layers.
class Encoder {
 public:
  Encoder(const Scope& scope, const ModelConfig& config);
  /// With these embeddings in the place of its own.
  Encoder(const Scope& scope, const ModelConfig& config, Embeddings embeddings);
  ~Encoder();
  /// The last hidden state: of the batch's rows, [r, hidden] or, if it is dense, [b, n, hidden]; of
  /// `read` [p, hidden]. The last layer computes no others.
  Var operator()(ModelInput input, const Ragged& batch, const RunContext& run,
                 const ChosenRows& read = {}) const;
  /// The embeddings of the encoder.
  const Embeddings& embeddings() const { return embeddings_; }

 private:
  class Layer;

  Embeddings embeddings_;
  std::vector<Layer> layers_;
  std::vector<std::int64_t> places_;  // offset of each layer's first parameter in the slabs
  std::optional<LayerNorm> final_norm_;
  std::optional<double> rope_theta_, local_rope_theta_;
  std::int64_t head_dim_;
};

}  // namespace nystrom
