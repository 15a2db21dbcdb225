// The configuration of a model: every number and choice that shapes it. Keys have Hugging Face's
// names where it has them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/inverse.h"
#include "core/base/fields.h"
#include "core/base/problem.h"

namespace nystrom {

/// The most layers that a configuration may ask for; what computes has fewer by far.
inline constexpr std::int64_t max_layers = 4096;

/// The attention kinds. none: the layer has its feed-forward block alone.
enum class AttentionKind {
  nystrom,
  softmax,
  double_softmax,
  linear,
  performer,
  linformer,
  reformer,
  none
};
/// Padding-invariant attention (nystrom), or Hugging Face's computation.
enum class Semantics { nystrom, transformers };
/// The tensors that landmarks are means of.
enum class LandmarkSource { queries_and_keys, keys };
/// Whether the heads of a layer share linformer's projections of the sequence.
enum class ProjectionSharing { shared, per_head };
/// The activation of feed-forward layers and heads. linear: none.
enum class Activation { gelu, gelu_new, silu, relu, tanh, linear };
/// The position of layer normalisation: after (BERT) or before each block.
enum class Norm { post, pre };
/// How positions are told. absolute: embeddings of a token's place in its row; skip_padding: of its
/// place among the tokens that are not the padding token (RoBERTa); rope: queries and keys are
/// rotated by their places (Su et al., arXiv 2104.09864).
enum class Positions { absolute, skip_padding, none, rope };
/// The feed-forward layer. gelu: hidden_act of one layer's output; geglu: hidden_act of a half of
/// it, times the other half (Shazeer, arXiv 2002.05202).
enum class Mlp { gelu, geglu };
/// The vector that a classification head reads: the first token's, the mean of all, a learned
/// token's in front of features, or the mean weighted by gated attention (Ilse et al., ICML 2018).
enum class Pooling { first, mean, token, attention };
/// The vector of a text, of its tokens' hidden states, with the names of sentence-transformers. The
/// sum is divided by the tokens (mean), by the root of their number (mean_sqrt_len_tokens), or
/// weighted by their places from 1 (weightedmean). max is the largest number in each column.
/// landmarks is the mean over the segment means of attention.num_landmarks segments.
enum class SentencePooling {
  mean,
  cls,
  landmarks,
  max,
  mean_sqrt_len_tokens,
  weightedmean,
  lasttoken
};
/// How vectors of texts are compared, with the names of sentence-transformers.
enum class Similarity { cosine, dot, euclidean, manhattan };
/// The encoding of a pair of texts: as one sequence, or each by itself.
enum class Pairs { joined, towers };
/// The head on top of the encoder. replaced_tokens: ELECTRA's, which tells of each token whether
/// another stood in its place; masked_features: says the rows of features that are masked.
enum class Head {
  masked_lm,
  replaced_tokens,
  masked_features,
  sequence_classification,
  token_classification,
  question_answering,
  multiple_choice,
  none
};

/// The names, of which some functions have several.
std::span<const EnumName<Activation>> enum_names(Activation);
/// The names are Hugging Face's classes: "NystromformerForMaskedLM", …; none is
/// "NystromformerModel".
std::span<const EnumName<Head>> enum_names(Head);

/// Layers, as "11" or "0-3" from 0, and their attention kind.
using LayerKinds = std::vector<std::pair<std::string, AttentionKind>>;

/// The shape of the generator of replaced-token detection (Clark et al., "ELECTRA", ICLR 2020): a
/// masked language model with the layers and the embedding tables of the model that it teaches.
struct GeneratorConfig {
  std::optional<std::int64_t> hidden_size = std::nullopt;
  std::optional<std::int64_t> num_attention_heads = std::nullopt;
  std::optional<std::int64_t> intermediate_size = std::nullopt;

  bool operator==(const GeneratorConfig&) const = default;
};

template <class V>
void fields(V& v, GeneratorConfig& c) {
  v(c.hidden_size, "hidden_size", "width of the generator; null: a quarter of the model's",
    at_least(1));
  v(c.num_attention_heads, "num_attention_heads",
    "attention heads of the generator; null: a quarter of the model's, at least one", at_least(1));
  v(c.intermediate_size, "intermediate_size",
    "width of its feed-forward layers; null: a quarter of the model's", at_least(1));
}

/// The options `model.attention`.
struct AttentionConfig {
  AttentionKind kind = AttentionKind::nystrom;
  LayerKinds layers = {};
  std::optional<std::int64_t> window = std::nullopt;
  std::vector<std::string> window_layers = {};
  Semantics semantics = Semantics::nystrom;
  std::int64_t num_landmarks = 64;
  LandmarkSource landmark_source = LandmarkSource::queries_and_keys;
  Inverse inverse = Inverse::iterative;
  std::int64_t inverse_iterations = 6;
  std::optional<std::int64_t> conv_kernel_size = 33;
  std::int64_t num_features = 256;
  std::int64_t projected_length = 256;
  ProjectionSharing projection_sharing = ProjectionSharing::shared;
  std::int64_t num_hashes = 2;
  std::int64_t bucket_size = 64;
  std::int64_t random_seed = 0;
};

template <class V>
void fields(V& v, AttentionConfig& c) {
  v(c.kind, "kind",
    "nystrom: O(n) through landmarks; softmax: exact attention; none: features alone, with pooling "
    "mean or attention; the others: baselines in O(n), for comparison");
  v(c.layers, "layers",
    "layers with a kind of their own, from 0: {0-3: softmax, 11: softmax}; the others have `kind`");
  v(c.window, "window",
    "a token sees the tokens at most window / 2 places away, in O(n); null: all. Layers of kind "
    "nystrom add the landmarks, by a learned share of each head",
    at_least(2));
  v(c.window_layers, "window_layers",
    "layers with the window, from 0: [1-2, 4-5]; empty: all of kind softmax, or, without such "
    "layers, of kind nystrom");
  v(c.semantics, "semantics",
    "nystrom: padding-invariant; transformers: as Hugging Face computes it, for its checkpoints");
  v(c.num_landmarks, "num_landmarks", "landmarks per head; shorter sequences get exact attention",
    at_least(1));
  v(c.landmark_source, "landmark_source",
    "queries_and_keys: landmarks of both; keys: the key landmarks serve as both");
  v(c.inverse, "inverse",
    "of the landmark matrix. iterative: as published; exact: by SVD; identity: none");
  v(c.inverse_iterations, "inverse_iterations", "steps of the iterative inverse", between(0, 1000));
  v(c.conv_kernel_size, "conv_kernel_size",
    "taps of the depthwise convolution skip, odd; null: no convolution", odd_positive);
  v(c.num_features, "num_features", "performer: random features per head", between(1, 65536));
  v(c.projected_length, "projected_length",
    "linformer: positions that keys and values are projected to", at_least(1));
  v(c.projection_sharing, "projection_sharing",
    "linformer: one pair of projections for all heads of a layer (shared), or per_head");
  v(c.num_hashes, "num_hashes", "reformer: rounds of hashing", between(1, 64));
  v(c.bucket_size, "bucket_size",
    "reformer: queries of a chunk, which see their chunk and the one before", between(1, 65536));
  v(c.random_seed, "random_seed",
    "performer, reformer: decides the random features and rotations, which are drawn once",
    not_negative);
}

/// A layer between pooling and projection.
struct DenseLayer {
  std::int64_t width = 1;
  Activation activation = Activation::tanh;
  bool operator==(const DenseLayer&) const = default;
};

template <class V>
void fields(V& v, DenseLayer& c) {
  v(c.width, "width", "numbers that it makes", at_least(1));
  v(c.activation, "activation", "linear: none");
}

/// The options `model.embedding`: how a text becomes one vector.
struct EmbeddingConfig {
  SentencePooling pooling = SentencePooling::mean;
  std::vector<DenseLayer> dense;
  std::optional<std::int64_t> projection;
  Activation projection_act = Activation::linear;
  bool normalize = true;
  Similarity similarity = Similarity::cosine;
  std::string query_prompt, document_prompt;
  bool operator==(const EmbeddingConfig&) const = default;
};

template <class V>
void fields(V& v, EmbeddingConfig& c) {
  v(c.pooling, "pooling",
    "mean: the mean of the tokens' hidden states; cls, lasttoken: that of the first or last token; "
    "landmarks: the mean of the means of attention.num_landmarks segments; max: the largest number "
    "of each column; mean_sqrt_len_tokens: the sum over the root of the tokens; weightedmean: "
    "weighted by the places");
  v(c.dense, "dense",
    "layers between pooling and projection, as Dense of sentence-transformers: [{width: 1024, "
    "activation: tanh}]");
  v(c.projection, "projection", "width of the last linear layer; null: none", at_least(1));
  v(c.projection_act, "projection_act", "activation of the projection; linear: none");
  v(c.normalize, "normalize", "divide each vector by its length");
  v(c.similarity, "similarity",
    "how vectors are compared in ranks, in correlations and by search, while losses take the "
    "cosine. cosine; dot: their product; euclidean and manhattan: by other programs alone");
  v(c.query_prompt, "query_prompt", "text put before each query (\"query: \")");
  v(c.document_prompt, "document_prompt", "text put before each document (\"passage: \")");
}

/// The options `model`, and the properties that a model has from its checkpoint, task, tokenizer or
/// data.
struct ModelConfig {
  std::int64_t vocab_size = 30000;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::gelu_new;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double hidden_dropout_prob = 0.1;
  double layer_norm_eps = 1e-5;
  double initializer_range = 0.02;
  Norm norm = Norm::post;
  bool final_norm = false;
  bool first_attention_norm = true;
  Mlp mlp = Mlp::gelu;
  bool bias = true;
  Positions positions = Positions::absolute;
  double rope_theta = 10000;
  std::optional<double> local_rope_theta;
  std::int64_t position_offset = 2;
  std::optional<std::int64_t> embedding_size;
  std::optional<Activation> transform_act, classifier_act;
  bool head_transform = false;
  bool tie_word_embeddings = true;
  Pooling pooling = Pooling::first;
  Pairs pairs = Pairs::joined;
  std::optional<std::int64_t> embed_dim;
  AttentionConfig attention;
  EmbeddingConfig embedding;

  // No options of `model:`; the checkpoint, the task, the tokenizer or the data decide them.
  /// Row of the word embeddings that is not trained. Null: all are.
  std::optional<std::int64_t> pad_token_id = 1;
  /// The tokenizer's ids, written to config.json for other programs. Null: the tokenizer has none.
  std::optional<std::int64_t> bos_token_id, eos_token_id;
  Head head = Head::masked_lm;
  std::vector<std::string> labels = {"LABEL_0", "LABEL_1"};
  /// Whether a sequence head judges each label by itself: sigmoids in the place of a softmax.
  bool multi_label = false;
  /// Adds a second head to the masked-LM head, which predicts the order of two segments.
  bool sentence_order = false;
  /// Head::replaced_tokens: the generator whose tokens it tells apart, while it is trained.
  std::optional<GeneratorConfig> generator = std::nullopt;
  /// The only length that `semantics: transformers` accepts in the Nyström branch, because of
  /// Hugging Face's reshape.
  std::int64_t segment_means_seq_len = 64;

  /// The attention kind of a layer, from 0: that in attention.layers, else attention.kind.
  AttentionKind kind_of(std::int64_t layer) const;
  /// Whether a layer has this attention kind.
  bool has_kind(AttentionKind kind) const;
  /// Whether all layers have this attention kind.
  bool has_only(AttentionKind kind) const;
  /// The configuration of a layer: attention.kind is the layer's, and attention.layers is empty.
  ModelConfig of_layer(std::int64_t layer) const;

  /// Whether a layer, from 0, has attention.window.
  bool has_window(std::int64_t layer) const;
  /// Whether a layer of this kind has attention.window.
  bool has_window(AttentionKind kind) const;
  /// The same configuration, of layers without a window.
  ModelConfig without_window() const;
  /// The same configuration with exact attention in every layer. Layers with a window keep it.
  ModelConfig with_exact_attention() const;
  /// Whether there is a table of position embeddings.
  bool has_position_table() const {
    return positions == Positions::absolute || positions == Positions::skip_padding;
  }
  /// Whether distances between tokens matter in attention, so that padding cannot have rows.
  bool attends_by_distance() const {
    return positions == Positions::rope || attention.window.has_value();
  }

  /// Whether transformers' Nyströmformer computes exact attention with these numbers.
  bool exact_in_transformers() const { return segment_means_seq_len == attention.num_landmarks; }
  /// The only length that the attention accepts: segment_means_seq_len under semantics
  /// transformers, except in its exact case. Nothing: any length.
  std::optional<std::int64_t> fixed_length() const {
    const bool fixed = has_kind(AttentionKind::nystrom) &&
                       attention.semantics == Semantics::transformers && !exact_in_transformers();
    return fixed ? std::optional(segment_means_seq_len) : std::nullopt;
  }
  /// The limit of a sequence's tokens, with the special ones but without a class token; nothing: no
  /// limit.
  std::optional<std::int64_t> longest_sequence() const {
    if (fixed_length()) return fixed_length();
    const bool limited = positions != Positions::none || has_kind(AttentionKind::linformer);
    return limited ? std::optional(max_position_embeddings - has_class_token()) : std::nullopt;
  }

  /// Whether the encoder puts a learned row in front of each sequence.
  bool has_class_token() const {
    return pooling == Pooling::token &&
           (head == Head::sequence_classification || head == Head::masked_features);
  }
  /// Whether a sample is two rows of a batch, each encoded by itself (retrieval in Tay et al.,
  /// "Long Range Arena", ICLR 2021).
  bool has_towers() const {
    return head == Head::sequence_classification && pairs == Pairs::towers;
  }
  /// The rows of the position table.
  std::int64_t position_rows() const { return max_position_embeddings + position_offset; }
  /// The width of the embedding tables; projected to hidden_size if different (ELECTRA).
  std::int64_t embedding_width() const { return embedding_size.value_or(hidden_size); }
  /// The width of a text's vector.
  std::int64_t vector_width() const { return embedding.projection.value_or(pooled_width()); }
  /// The width in front of the projection.
  std::int64_t pooled_width() const {
    return embedding.dense.empty() ? hidden_size : embedding.dense.back().width;
  }
  /// The activation of the masked-LM head.
  Activation transform_activation() const { return transform_act.value_or(hidden_act); }
  /// The activation before the last layer of a head that reads one vector a sequence.
  Activation classifier_activation() const {
    return classifier_act.value_or(head == Head::multiple_choice ? Activation::relu : hidden_act);
  }
  /// The width of one attention head.
  std::int64_t head_dim() const { return hidden_size / num_attention_heads; }
  /// The number of labels.
  std::int64_t num_labels() const { return static_cast<std::int64_t>(labels.size()); }
};

/// f32 has all powers of it that rotations take, and their products with places.
inline constexpr Range rotation_base = between(1e-6, 1e9);

template <class V>
void fields(V& v, ModelConfig& c) {
  v(c.vocab_size, "vocab_size",
    "rows of the word embedding; filled from the tokenizer when left out", at_least(1));
  v(c.hidden_size, "hidden_size", "width of the encoder", at_least(1));
  v(c.num_hidden_layers, "num_hidden_layers", "number of layers", at_least(0));
  v(c.num_attention_heads, "num_attention_heads", "attention heads; divides hidden_size",
    at_least(1));
  v(c.intermediate_size, "intermediate_size", "width of the feed-forward layer", at_least(1));
  v(c.hidden_act, "hidden_act",
    "gelu: with erf; gelu_new: with tanh; silu; relu; tanh; linear: none");
  v(c.max_position_embeddings, "max_position_embeddings", "longest sequence", at_least(1));
  v(c.type_vocab_size, "type_vocab_size",
    "number of token types (segments); 0: no embeddings of them", at_least(0));
  v(c.hidden_dropout_prob, "hidden_dropout_prob",
    "dropout after the embeddings and before each residual", below_one);
  v(c.layer_norm_eps, "layer_norm_eps", "added to the variance in layer normalisation",
    between(positive_in_f32.lower, 1));
  v(c.initializer_range, "initializer_range", "standard deviation of fresh weights",
    between(0, 1000));
  v(c.norm, "norm", "post: as BERT; pre: the sequence block");
  v(c.final_norm, "final_norm", "normalise the last layer's output, as models with norm: pre do");
  v(c.first_attention_norm, "first_attention_norm",
    "norm: pre normalises the input of the first layer's attention; false: the embeddings' own "
    "norm "
    "serves (ModernBERT)");
  v(c.mlp, "mlp",
    "feed-forward layer. gelu: hidden_act of intermediate_size columns; geglu: hidden_act of "
    "these, "
    "times as many others");
  v(c.bias, "bias",
    "biases of linear layers and norms in encoder and head transform; decoders and label layers "
    "keep theirs");
  v(c.positions, "positions",
    "absolute: learned embeddings of the place in the row; skip_padding: of the place among tokens "
    "other than padding, as RoBERTa; rope: queries and keys rotated by their places; none");
  v(c.rope_theta, "rope_theta", "rope: base of the angles' periods", rotation_base);
  v(c.local_rope_theta, "local_rope_theta",
    "rope_theta of layers of kind softmax with a window; null: the same", rotation_base);
  v(c.position_offset, "position_offset",
    "row of the position table that the first position reads (BERT: 0)", between(0, 1'000'000));
  v(c.embedding_size, "embedding_size",
    "width of the embeddings, projected to hidden_size; null: hidden_size, without a projection",
    at_least(1));
  v(c.transform_act, "transform_act", "activation of the masked-LM head; null: hidden_act");
  v(c.classifier_act, "classifier_act",
    "activation before the last layer of a classification, regression or choice head; null: "
    "hidden_act (choice: relu)");
  v(c.head_transform, "head_transform",
    "heads with labels begin as the masked-LM head does: dense, transform_act, norm");
  v(c.tie_word_embeddings, "tie_word_embeddings",
    "the masked-LM head's decoder is the word embedding; false: it has weights of its own");
  v(c.pooling, "pooling",
    "input of a classification or regression head. first: the first token (features: the last "
    "valid step); mean: the mean of all tokens; features: token: a learned row in front of them; "
    "attention: their mean, weighted by gated attention (Ilse et al. 2018)");
  v(c.pairs, "pairs",
    "a pair of texts to classify. joined: one sequence; towers: each is encoded by itself, and the "
    "head reads [a, b, a * b, a - b]");
  v(c.embed_dim, "embed_dim",
    "width of input features of the sequence block; null: the input is token ids", at_least(1));
  v(c.attention, "attention", "the attention block");
  v(c.embedding, "embedding", "vectors of texts");
}

/// The generator of a model with ModelConfig::generator: a masked language model.
ModelConfig generator_of(const ModelConfig& config);

/// All reasons why a model of `config` cannot be built, one line each ("hidden_size 100 is not
/// divisible by num_attention_heads 12; …").
Problems problems(const ModelConfig& config);

}  // namespace nystrom
