// Embeddings and the stack of layers, with Hugging Face's names and shapes.
#pragma once

#include <optional>
#include <vector>

#include "core/batch.h"
#include "nn/attention.h"

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
  Var embed_positions(const Tensor& ids, const Ragged& batch) const;

  std::int64_t padding_id_, first_position_row_;
  bool positions_skip_padding_;
  Var embed_features(const ModelInput& input, const Ragged& batch) const;

  std::optional<Parameter> words_, positions_, types_, class_token_;
  std::optional<LayerNorm> norm_;
  std::optional<Linear> projection_;  // of features, or of embeddings of another width
  Dropout dropout_;
};

/// Positions of the flattened [b · n], which have rows; nothing: all rows.
using ReadPositions = std::optional<std::vector<std::int64_t>>;

/// One encoder layer, post-LN as BERT's or pre-LN.
class EncoderLayer {
 public:
  /// Layer `number` of a model of `config`.
  EncoderLayer(const Scope& scope, const ModelConfig& config, std::int64_t number);
  /// The layer's output for x, rows of the batch: the same shape, or [p, hidden] of the rows that
  /// are read. The dropout of `run` is that of the output's rows.
  Var operator()(const Var& x, const Ragged& batch, const Rotations& rotations,
                 const std::optional<ReadRows>& read, const RunContext& run) const;

 private:
  /// The attention block with its residual.
  Var attend(const Var& x, const Ragged& batch, const Rotations& rotations,
             const std::optional<ReadRows>& read, const RunContext& run) const;
  Var feed_forward(const Var& x) const;

  std::int64_t number_;
  Norm norm_;
  Mlp mlp_;
  Activation activation_;
  /// The attention block; none with AttentionKind::none.
  struct AttentionBlock {
    AttentionBlock(const Scope& scope, const ModelConfig& config, bool normed);
    SelfAttention attention;
    Linear output;
    std::optional<LayerNorm> norm;  ///< absent: norm: pre without first_attention_norm
    Dropout dropout;
  };
  std::optional<AttentionBlock> attention_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout output_dropout_;
};

/// The whole encoder, `nystromformer`: embeddings and layers.
class Encoder {
 public:
  Encoder(const Scope& scope, const ModelConfig& config);
  /// With these embeddings in the place of its own.
  Encoder(const Scope& scope, const ModelConfig& config, Embeddings embeddings);
  /// The last hidden state: of the batch's rows, [r, hidden] or, if it is dense, [b, n, hidden]; of
  /// `read` [p, hidden]. The last layer computes no others.
  Var operator()(ModelInput input, const Ragged& batch, const RunContext& run,
                 const ReadPositions& read = {}) const;
  /// The embeddings of the encoder.
  const Embeddings& embeddings() const { return embeddings_; }

 private:
  Rotations rotations_of(const Ragged& batch, const Var& x) const;

  Embeddings embeddings_;
  std::vector<EncoderLayer> layers_;
  std::vector<std::int64_t> places_;  // offset of each layer's first parameter in the slabs
  std::optional<LayerNorm> final_norm_;
  std::optional<double> rope_theta_, local_rope_theta_;
  std::int64_t head_dim_;
};

}  // namespace nystrom
