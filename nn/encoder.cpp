#include "nn/encoder.h"

#include <algorithm>
#include <functional>

#include "core/check.h"
#include "nn/attention.h"

namespace nystrom {

Embeddings::Embeddings(const Scope& scope, const ModelConfig& config)
    : padding_id_(config.pad_token_id.value_or(-1)),
      first_position_row_(config.position_offset),
      positions_skip_padding_(config.positions == Positions::skip_padding),
      dropout_(scope, config.hidden_dropout_prob) {
  const std::int64_t width = config.embedding_width();
  if (config.embed_dim) {
    projection_.emplace(scope / "projection", *config.embed_dim, config.hidden_size);
    if (config.has_class_token())
      class_token_ = (scope / "class_token").parameter("weight", {1, config.hidden_size});
    return;
  }
  words_ = (scope / "word_embeddings")
               .parameter("weight", {config.vocab_size, width}, {Init::Kind::normal, padding_id_});
  if (config.has_position_table()) {
    positions_ =
        (scope / "position_embeddings").parameter("weight", {config.position_rows(), width});
  }
  if (config.type_vocab_size > 0) {
    types_ = (scope / "token_type_embeddings").parameter("weight", {config.type_vocab_size, width});
  }
  norm_.emplace(scope / "LayerNorm", width, config.layer_norm_eps, config.bias);
  if (width != config.hidden_size)
    projection_.emplace(scope / "projection", width, config.hidden_size);
}

Embeddings::Embeddings(const Scope& scope, const ModelConfig& config, const Embeddings& shared)
    : Embeddings(shared) {
  dropout_ = Dropout(scope, config.hidden_dropout_prob);
  projection_.reset();
  if (words().shape()[1] != config.hidden_size)
    projection_.emplace(scope / "projection", words().shape()[1], config.hidden_size);
}

Var Embeddings::operator()(const ModelInput& input, const Ragged& batch,
                           const RunContext& run) const {
  if (words_) {
    const Var x = dropout_(embed_tokens(input, batch), run);
    return projection_ ? (*projection_)(x) : x;
  }
  require(input.features.defined(), "the model takes features [b, n, embed_dim], got token ids");
  return dropout_(embed_features(input, batch), run);
}

Var Embeddings::embed_features(const ModelInput& input, const Ragged& batch) const {
  // Padding may hold anything, even NaN, and must not affect a weight's gradient.
  if (!class_token_)
    return projection_->of_data(
        batch.token_features(input.features, projection_->weight().var().dtype()));
  const Var rows = flat_rows(projection_->of_data(input.features));
  std::vector<Var> parts;
  std::int64_t begin = 0;
  for (const std::int64_t count : batch.counts()) {
    parts.push_back(*class_token_);
    parts.push_back(slice(rows, 0, begin, begin + count - 1));
    begin += count - 1;
  }
  const Var x = concat(parts, 0);
  return batch.dense() ? reshape(x, {batch.batch(), batch.length(), x.dim(1)}) : x;
}

Var Embeddings::embed_tokens(const ModelInput& input, const Ragged& batch) const {
  require(input.input_ids.defined(), "the model takes token ids [b, n], got none");
  const Tensor& ids = input.input_ids;
  const bool padded = input.offsets.empty();
  require(ids.rank() == (padded ? 2 : 1), "input_ids must be {}, got {}", padded ? "[b, n]" : "[r]",
          ids.shape());
  const Tensor& types = input.token_type_ids;
  require(!types.defined() || types.shape() == ids.shape(),
          "token_type_ids are {}, expected {} as input_ids", types.shape(), ids.shape());
  // Rows of padding are not read: without a padding token any id will do.
  const Tensor rows = batch.rows_of(ids, std::max<std::int64_t>(padding_id_, 0));
  Var x = embedding(*words_, rows, padding_id_);
  if (types_)
    x = x + embedding(*types_, types.defined() ? batch.rows_of(types, 0)
                                               : Tensor::zeros(rows.shape(), DType::i64,
                                                               types_->var().value().device()));
  if (positions_) x = x + embed_positions(input, batch);
  return (*norm_)(x);
}

Var Embeddings::embed_positions(const ModelInput& input, const Ragged& batch) const {
  const std::int64_t length = batch.length(),
                     longest = positions_->shape()[0] - first_position_row_;
  require_input(length <= longest,
                "the sequence has {} positions, but max_position_embeddings is {}; shorten it, "
                "or extend the model",
                length, longest);
  if (!positions_skip_padding_ && batch.dense())
    return slice(*positions_, 0, first_position_row_, first_position_row_ + length);
  // Padding reads the row before, which is not trained.
  const std::int64_t padding_row = first_position_row_ - 1;
  Tensor rows = input.input_ids.to(cpu_device).contiguous().clone();
  auto* row = rows.data<std::int64_t>();
  const std::vector<std::int64_t> ends = input.element_offsets();
  for (std::size_t i = 1; i < ends.size(); ++i)
    for (std::int64_t element = ends[i - 1], next = first_position_row_; element < ends[i];
         ++element)
      row[element] = positions_skip_padding_ && row[element] == padding_id_ ? padding_row : next++;
  const std::int64_t of_padding = positions_skip_padding_ ? padding_row : first_position_row_;
  return embedding(*positions_, batch.rows_of(rows, of_padding),
                   positions_skip_padding_ ? padding_row : -1);
}

/// One encoder layer, post-LN as BERT's or pre-LN.
class Encoder::Layer {
 public:
  /// Layer `number` of a model of `config`.
  Layer(const Scope& scope, const ModelConfig& config, std::int64_t number);
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

Encoder::Layer::AttentionBlock::AttentionBlock(const Scope& scope, const ModelConfig& config,
                                               bool normed)
    : attention(scope / "self", config),
      output(scope / "output" / "dense", config.hidden_size, config.hidden_size, config.bias),
      norm(normed ? std::optional<LayerNorm>(std::in_place, scope / "output" / "LayerNorm",
                                             config.hidden_size, config.layer_norm_eps, config.bias)
                  : std::nullopt),
      dropout(scope, config.hidden_dropout_prob) {}

Encoder::Layer::Layer(const Scope& scope, const ModelConfig& config, std::int64_t number)
    : number_(number),
      norm_(config.norm),
      mlp_(config.mlp),
      activation_(config.hidden_act),
      attention_(config.kind_of(number) == AttentionKind::none
                     ? std::nullopt
                     : std::optional<AttentionBlock>(
                           std::in_place, scope / "attention", config.of_layer(number),
                           config.norm == Norm::post || number > 0 || config.first_attention_norm)),
      intermediate_(scope / "intermediate" / "dense", config.hidden_size,
                    (config.mlp == Mlp::geglu ? 2 : 1) * config.intermediate_size, config.bias),
      output_(scope / "output" / "dense", config.intermediate_size, config.hidden_size,
              config.bias),
      output_norm_(scope / "output" / "LayerNorm", config.hidden_size, config.layer_norm_eps,
                   config.bias),
      output_dropout_(scope, config.hidden_dropout_prob) {}

Var Encoder::Layer::feed_forward(const Var& x) const {
  return mlp_ == Mlp::geglu ? output_.of_gated(activation_, intermediate_(x))
                            : nystrom::feed_forward(intermediate_, activation_, output_, x);
}

Var Encoder::Layer::attend(const Var& x, const Ragged& batch, const Rotations& rotations,
                           const std::optional<ReadRows>& read, const RunContext& run) const {
  const Var rest = read ? read->of(x) : x;
  if (!attention_) return rest;
  const auto& [attention, output, norm, dropout] = *attention_;
  const bool before = norm_ == Norm::pre;
  Var y = output(attention(before && norm ? (*norm)(x) : x, batch, rotations, read, run));
  if (run.observe_attention_output) run.observe_attention_output(number_, y);
  return before ? residual_dropout(y, rest, dropout.options(run))
                : (*norm)(y, rest, dropout.options(run));
}

Var Encoder::Layer::operator()(const Var& x, const Ragged& batch, const Rotations& rotations,
                               const std::optional<ReadRows>& read, const RunContext& run) const {
  const Var y = attend(x, batch, rotations, read, run);
  const DropoutOptions dropout = output_dropout_.options(run);
  return !attention_ || norm_ == Norm::pre
             ? residual_dropout(feed_forward(output_norm_(y)), y, dropout)
             : output_norm_(feed_forward(y), y, dropout);
}

Encoder::Encoder(const Scope& scope, const ModelConfig& config)
    : Encoder(scope, config, Embeddings(scope / "embeddings", config)) {}

Encoder::Encoder(const Scope& scope, const ModelConfig& config, Embeddings embeddings)
    : embeddings_(std::move(embeddings)), head_dim_(config.head_dim()) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    places_.push_back(scope.next_offset());
    layers_.emplace_back(scope / "encoder" / "layer" / std::to_string(i), config, i);
  }
  if (config.final_norm)
    final_norm_.emplace(scope / "final_norm", config.hidden_size, config.layer_norm_eps,
                        config.bias);
  if (config.positions != Positions::rope) return;
  rope_theta_ = config.rope_theta;
  if (config.has_window(AttentionKind::softmax))
    local_rope_theta_ = config.local_rope_theta.value_or(*rope_theta_);
}

Encoder::~Encoder() = default;

Var Encoder::operator()(ModelInput input, const Ragged& batch, const RunContext& run,
                        const ChosenRows& read) const {
  const RunContext rows = batch.of(run);
  Var x = embeddings_(input, batch, rows);
  input = {};
  std::optional<ReadRows> rows_read;
  if (read) {
    rows_read.emplace(ReadRows{index_of(*read).to(x.value().device()), {}});
    const bool increasing = std::ranges::adjacent_find(*read, std::greater_equal()) == read->end();
    // On a GPU one product makes queries, keys and values of all rows.
    if (increasing && x.value().device().is_cpu()) rows_read->attending = batch.attending_at(*read);
  }
  const auto table = [&](const std::optional<double>& theta) {
    if (!theta) return Tensor();
    return rotary_table(batch.length(), head_dim_, *theta)
        .cast(accumulate_dtype(x.dtype()))
        .to(x.value().device());
  };
  const Rotations rotations{table(rope_theta_), table(local_rope_theta_), rope_theta_};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::optional<ReadRows> own =
        i + 1 == layers_.size() ? rows_read : std::optional<ReadRows>();
    const RunContext of_output = own ? batch.of(run, read) : rows;
    // Later layers have later parameters. When the backward pass reaches this point, the gradients
    // of all later parameters are final.
    if (run.gradients_final)
      Tape::add_backward_hook([final = run.gradients_final, place = places_[i]] { final(place); });
    if (run.activation_checkpointing && Tape::is_active()) {
      x = checkpoint(
          [&layer, batch, rotations, own, of_output](const std::vector<Var>& in) {
            return layer(in[0], batch, rotations, own, of_output);
          },
          {x});
    } else {
      x = layer(x, batch, rotations, own, of_output);
    }
  }
  if (layers_.empty() && read) x = rows_read->of(x);
  return final_norm_ ? (*final_norm_)(x) : x;
}

}  // namespace nystrom
