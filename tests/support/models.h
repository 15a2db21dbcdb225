// Small models whose weights are far from their initial values, batches for them, and the parts of
// results that tests compare.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model.h"
#include "tests/support/random.h"

namespace nystrom::testing {

/// Two layers, two heads, three landmarks and no head on top. It is the smallest model with every
/// part of attention.
inline ModelConfig tiny_config() {
  ModelConfig c;
  c.vocab_size = 9;
  c.hidden_size = 6;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.intermediate_size = 7;
  c.max_position_embeddings = 9;
  c.hidden_dropout_prob = 0.2;
  c.pad_token_id = 1;
  c.attention.num_landmarks = 3;
  c.attention.conv_kernel_size = 3;
  c.segment_means_seq_len = 9;
  c.head = Head::none;
  return c;
}

inline ModelConfig masked_lm_config() {
  ModelConfig config = tiny_config();
  config.head = Head::masked_lm;
  return config;
}

/// Wider, with more tokens and landmarks, for longer sequences.
inline ModelConfig wider_config() {
  ModelConfig c = tiny_config();
  c.vocab_size = 40;
  c.hidden_size = 16;
  c.intermediate_size = 24;
  c.max_position_embeddings = 160;
  c.attention.num_landmarks = 4;
  c.attention.conv_kernel_size = 5;
  return c;
}

/// Turns a model into the sequence block: features as input, pre-LN, landmarks of the keys, no
/// convolution, no positions.
inline void make_sequence_block(ModelConfig& c) {
  c.norm = Norm::pre;
  c.positions = Positions::none;
  c.embed_dim = 5;
  c.head = Head::none;
  c.attention.landmark_source = LandmarkSource::keys;
  c.attention.conv_kernel_size.reset();
}

inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a, equal on every machine
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

/// Values that depend only on a parameter's name and shape. They are rounded to bf16 so that every
/// type computes with the same numbers. Query and key weights are `sharpness` times larger. Near
/// initialization the landmark matrix has almost rank one and would hide errors.
inline Tensor weights_of(const Parameter& parameter, double sharpness) {
  const std::string& name = parameter.name();
  const Shape& shape = parameter.shape();
  double scale = shape.rank() == 2 ? 1 / std::sqrt(static_cast<double>(shape[1])) : 0.3;
  if (name.ends_with("query.weight") || name.ends_with("key.weight")) scale *= sharpness;
  const double centre = name.ends_with("LayerNorm.weight") ? 1 : 0;
  Tensor values = random_normal(shape, hash_of(name), scale);
  for (std::int64_t i = 0; i < values.numel(); ++i) values.data<double>()[i] += centre;
  return values.cast(DType::bf16).cast(DType::f64);
}

inline std::unique_ptr<Model> make_model(const ModelConfig& config, DType dtype,
                                         double sharpness = 2, Device device = cpu_device) {
  auto model = std::make_unique<Model>(config);
  model->parameters().allocate(dtype, StoreMode::training, device);
  for (const Parameter& parameter : model->parameters().parameters())
    model->parameters().set(parameter.name(), weights_of(parameter, sharpness));
  return model;
}

/// The layout of a batch: a string for each row with '1' for a token and '0' for padding. A token
/// depends on its row's sequence and its index in it. Padding depends on `filler`. Two layouts of
/// the same sequences therefore differ only in padding.
struct Layout {
  std::vector<std::string> rows;
  std::vector<int> sequences = {};  ///< one for each row; empty: 0, 1, 2, …
  int filler = 0;  ///< features at padding are 0 with filler 0, and not finite otherwise

  int sequence(std::size_t row) const {
    return sequences.empty() ? static_cast<int>(row) : sequences[row];
  }
  std::int64_t batch() const { return static_cast<std::int64_t>(rows.size()); }
  std::int64_t length() const { return static_cast<std::int64_t>(rows[0].size()); }
};

namespace detail {

inline std::int64_t mixed(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<std::int64_t>(
      mix64(mix64(mix64(static_cast<std::uint64_t>(a)) + static_cast<std::uint64_t>(b)) +
            static_cast<std::uint64_t>(c)) >>
      1);
}

/// Calls f(row, position, key). A token of a sequence has the same key in every layout; padding has
/// negative keys.
template <class F>
void for_each_position(const Layout& layout, const F& f) {
  for (std::size_t b = 0; b < layout.rows.size(); ++b) {
    std::int64_t token = 0;
    for (std::size_t t = 0; t < layout.rows[b].size(); ++t) {
      const bool valid = layout.rows[b][t] == '1';
      const std::int64_t key = valid ? mixed(1, layout.sequence(b), token++)
                                     : -1 - (mixed(2 + layout.filler, static_cast<std::int64_t>(b),
                                                   static_cast<std::int64_t>(t)) >>
                                             1);
      f(b, t, key);
    }
  }
}

}  // namespace detail

inline Tensor mask_of(const Layout& layout) {
  std::vector<std::uint8_t> values;
  for (const auto& row : layout.rows) {
    for (const char c : row) values.push_back(c == '1');
  }
  return Tensor::from(values, {layout.batch(), layout.length()});
}

/// Returns token ids with types, or features. Ids are never the padding id, so that gradients of
/// padding would show.
inline ModelInput input_of(const ModelConfig& config, const Layout& layout) {
  std::vector<std::int64_t> ids, types;
  std::vector<double> features;
  detail::for_each_position(layout, [&](std::size_t, std::size_t t, std::int64_t key) {
    const std::int64_t magnitude = key < 0 ? -1 - key : key;
    ids.push_back(2 + magnitude % (config.vocab_size - 2));
    types.push_back(magnitude / 97 % std::max<std::int64_t>(config.type_vocab_size, 1));
    for (std::int64_t i = 0; i < config.embed_dim.value_or(0); ++i) {
      const double padding = layout.filler == 0 ? 0 : (t % 2 == 0 ? std::nan("") : HUGE_VAL);
      features.push_back(key < 0 ? padding
                                 : random_normal({1}, static_cast<std::uint64_t>(key + i)).item());
    }
  });
  const Shape shape{layout.batch(), layout.length()};
  ModelInput input;
  input.attention_mask = mask_of(layout);
  if (config.embed_dim) {
    input.features = Tensor::from(features, {shape[0], shape[1], *config.embed_dim});
  } else {
    input.input_ids = Tensor::from(ids, shape);
    input.token_type_ids = Tensor::from(types, shape);
  }
  return input;
}

/// A padded input as rows of its tokens, as loaders give it.
inline ModelInput without_padding(const ModelInput& padded) {
  const Tensor& mask = padded.attention_mask;
  ModelInput input;
  input.offsets = {0};
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    if (mask.data<std::uint8_t>()[i] != 0) places.push_back(i);
    if ((i + 1) % mask.dim(1) == 0) input.offsets.push_back(std::ssize(places));
  }
  const auto numbers = [&](const Tensor& x) {
    std::vector<std::int64_t> chosen;
    for (const std::int64_t place : places) chosen.push_back(x.data<std::int64_t>()[place]);
    return Tensor::from(chosen, {std::ssize(chosen)});
  };
  if (padded.input_ids.defined()) input.input_ids = numbers(padded.input_ids);
  if (padded.token_type_ids.defined()) input.token_type_ids = numbers(padded.token_type_ids);
  if (padded.features.defined()) {
    const Tensor& x = padded.features;
    const Tensor index = Tensor::from(places, {std::ssize(places)});
    input.features = gather_rows(Var(x.reshape({mask.numel(), x.dim(2)})), index).value();
  }
  return input;
}

/// Returns the flattened positions of the tokens in the given rows, in order. An empty list selects
/// all rows.
inline Tensor token_places(const Layout& layout, const std::vector<std::size_t>& rows = {}) {
  std::vector<std::int64_t> places;
  detail::for_each_position(layout, [&](std::size_t b, std::size_t t, std::int64_t key) {
    const bool wanted = rows.empty() || std::find(rows.begin(), rows.end(), b) != rows.end();
    if (wanted && key >= 0)
      places.push_back(static_cast<std::int64_t>(b) * layout.length() +
                       static_cast<std::int64_t>(t));
  });
  return Tensor::from(places, {static_cast<std::int64_t>(places.size())});
}

/// Selects the rows of x [b, n, c] at `places`: [k, c].
inline Var at_places(const Var& x, const Tensor& places) {
  return gather_rows(reshape(x, {x.dim(0) * x.dim(1), x.dim(2)}), places.to(x.value().device()));
}

/// Σ w ∘ x with standard normal w. Every entry of x then has a different effect on this loss.
inline Var weighted_sum(const Var& x) {
  return sum(x * random_normal(x.shape(), 5).cast(x.dtype()).to(x.value().device()));
}

/// The gradients of all parameters after a backward pass from `loss()`, and behind them the loss.
template <class F>
std::vector<double> gradients_and_loss(const Model& model, const F& loss) {
  Tape tape;
  const Var result = loss();
  tape.backward(result);
  std::vector<double> numbers = model.parameters().gradients().to_doubles();
  numbers.push_back(result.value().item());
  return numbers;
}

/// Whether the gradient of key biases is identically 0. They shift all scores of a query equally,
/// unless the landmarks that serve as queries contain them too.
inline bool key_bias_is_inert(const ModelConfig& c) {
  if (c.positions == Positions::rope) return false;  // it turns with the keys
  switch (c.attention.kind) {
    case AttentionKind::nystrom: return c.attention.landmark_source != LandmarkSource::keys;
    case AttentionKind::softmax:
    case AttentionKind::double_softmax: return true;
    default: return false;
  }
}
inline bool is_key_bias(std::string_view name) { return name.ends_with("self.key.bias"); }

}  // namespace nystrom::testing
