#include "tests/support/drawn_models.h"

#include <fmt/format.h>

#include <type_traits>

namespace nystrom::testing {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(mix64(state_++) % static_cast<std::uint64_t>(count));
  }
  bool once_in(std::int64_t times) { return below(times) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(std::ssize(values))];
  }
  /// A value of an enumeration, by its name.
  template <class E>
  void any(E& value) {
    const auto names = enum_names(E{});
    value = names[static_cast<std::size_t>(below(std::ssize(names)))].value;
  }

 private:
  std::uint64_t state_;
};

void draw_attention(AttentionConfig& c, std::int64_t layers, Draw& draw) {
  const auto kind = [&] {
    if (draw.once_in(2)) return draw.of({AttentionKind::nystrom, AttentionKind::softmax});
    AttentionKind drawn = AttentionKind::nystrom;
    draw.any(drawn);
    return drawn;
  };
  c.kind = kind();
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (draw.once_in(3)) c.layers.emplace_back(std::to_string(layer), kind());
  if (draw.once_in(2)) c.window = draw.of({2, 3, 4, 7, 20});
  for (std::int64_t layer = 0; c.window && layer < layers; ++layer)
    if (draw.once_in(4)) c.window_layers.push_back(std::to_string(layer));
  if (draw.once_in(6)) c.semantics = Semantics::transformers;
  c.num_landmarks = draw.of({1, 2, 3, 4, 9});
  draw.any(c.landmark_source);
  // `exact` is held by other tests: of ill-conditioned matrices no bound is known.
  c.inverse = draw.of({Inverse::iterative, Inverse::identity});
  c.inverse_iterations = draw.of({0, 1, 2, 6});
  c.conv_kernel_size.reset();
  if (!draw.once_in(3)) c.conv_kernel_size = draw.of({1, 3, 5, 33});
  c.num_features = draw.of({1, 5});
  c.projected_length = draw.of({1, 4, 9});
  draw.any(c.projection_sharing);
  c.num_hashes = draw.of({1, 2});
  c.bucket_size = draw.of({1, 2, 4});
}

ModelConfig draw_once(Draw& draw) {
  ModelConfig c = tiny_config();
  c.hidden_size = draw.of({4, 6, 8, 12});
  c.num_hidden_layers = draw.of({1, 2, 3});
  c.num_attention_heads = draw.of({1, 2});
  c.intermediate_size = draw.of({3, 7, 16});
  draw.any(c.hidden_act);
  c.type_vocab_size = draw.of({0, 1, 2});
  draw.any(c.norm);
  c.final_norm = draw.once_in(3);
  c.first_attention_norm = !draw.once_in(3);
  draw.any(c.mlp);
  c.bias = !draw.once_in(3);
  draw.any(c.positions);
  const double theta = draw.of({10.0, 10000.0});
  if (c.positions == Positions::rope) c.rope_theta = theta;
  if (draw.once_in(3)) c.local_rope_theta = 20.0;
  c.position_offset = draw.of({0, 1, 2});
  if (draw.once_in(4)) c.embedding_size = 5;
  if (draw.once_in(4)) c.transform_act = Activation::relu;
  if (draw.once_in(4)) c.classifier_act = Activation::tanh;
  c.head_transform = draw.once_in(3);
  c.tie_word_embeddings = !draw.once_in(3);
  draw.any(c.head);
  draw.any(c.pooling);
  draw.any(c.pairs);
  if (draw.once_in(4)) c.embed_dim = 5;
  draw_attention(c.attention, c.num_hidden_layers, draw);
  return c;
}

/// Writes `name: value` of every option.
struct Description {
  const ModelConfig& config;
  std::string text;

  template <class T, class... More>
  void operator()(const T& value, const char* name, const More&...) {
    if constexpr (std::is_enum_v<T>)
      text += fmt::format("{}: {}, ", name, enum_name(value));
    else if constexpr (std::is_arithmetic_v<T>)
      text += fmt::format("{}: {}, ", name, value);
    else if constexpr (std::is_same_v<T, std::optional<std::int64_t>> ||
                       std::is_same_v<T, std::optional<double>>)
      text += value ? fmt::format("{}: {}, ", name, *value) : "";
  }
  void operator()(AttentionConfig& section, const char*, const char*) {
    fields(*this, section);
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      text += fmt::format("layer {}: {}{}, ", layer, enum_name(config.kind_of(layer)),
                          config.has_window(layer) ? " with the window" : "");
  }
};

}  // namespace

ModelConfig drawn_model(std::uint64_t seed) {
  Draw draw(seed << 32);
  for (;;) {
    const ModelConfig drawn = draw_once(draw);
    if (problems(drawn).empty()) return drawn;
  }
}

Layout drawn_layout(const ModelConfig& config) {
  if (config.attention.semantics == Semantics::transformers || config.has_class_token())
    return {{2, std::string(static_cast<std::size_t>(config.longest_sequence().value_or(9)), '1')},
            {},
            1};
  return {{"111111111", "111000000", "100000000", "111110000"}, {}, 1};
}

ModelInput drawn_input(const ModelConfig& config, const Layout& layout) {
  ModelInput input = input_of(config, layout);
  if (config.has_class_token()) input.attention_mask = {};
  return input;
}

RunContext drawn_run(const Layout& layout, bool checkpoint_activations) {
  std::vector<std::int64_t> samples(layout.rows.size());
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = layout.sequence(i);
  return {true, checkpoint_activations, 3, 4, int_tensor(samples, {std::ssize(samples)})};
}

std::string description(const ModelConfig& config) {
  ModelConfig copy = config;  // field lists take a mutable struct
  Description written{config, fmt::format("head: {}, ", enum_name(config.head))};
  fields(written, copy);
  return written.text;
}

}  // namespace nystrom::testing
