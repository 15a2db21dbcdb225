// Conversion of a model with exact attention into a Nyström encoder.
#include <algorithm>

#include "core/base/printable.h"
#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/export/extend.h"
#include "train/state/transformers_class.h"

namespace nystrom {
namespace {

constexpr std::int64_t default_taps = 33;

/// "0,10-11" as attention.layers.
LayerKinds exact_layers(const std::string& text) {
  LayerKinds layers;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    layers.emplace_back(text.substr(begin, end - begin), AttentionKind::softmax);
    begin = end + 1;
  }
  return layers;
}

void set_layers(ModelConfig& config, const ConvertOptions& options) {
  const ModelConfig exact = config;
  config.attention.kind = AttentionKind::nystrom;
  config.attention.semantics = Semantics::nystrom;
  config.attention.layers = exact_layers(options.keep_exact);
  // Layers with a window are O(n) as they are.
  config.attention.window_layers.clear();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!exact.has_window(layer)) continue;
    config.attention.window_layers.push_back(std::to_string(layer));
    if (config.kind_of(layer) == AttentionKind::nystrom)
      config.attention.layers.emplace_back(std::to_string(layer), AttentionKind::softmax);
  }
  const std::vector<std::string> wrong = messages_of(layer_problems(config));
  require_input(wrong.empty(), "--keep-exact {}: {}", printable(options.keep_exact, 40),
                fmt::join(wrong, "; "));
  require_input(config.has_kind(AttentionKind::nystrom),
                "--keep-exact {} names all {} layers; leave one to convert, or use nystrom extend",
                printable(options.keep_exact, 40), config.num_hidden_layers);
}

void set_convolution(ModelConfig& config, const ConvertOptions& options, const std::string& where) {
  // Beside windows there is no convolution by default.
  if (config.attention.window && !options.conv) return;
  const std::int64_t taps =
      options.conv.value_or(config.attention.conv_kernel_size.value_or(default_taps));
  require_input(taps % 2 == 1, "--conv {}: expected an odd number of taps", taps);
  require_input(config.attention.conv_kernel_size.value_or(taps) == taps,
                "--conv {}: {} has a convolution of {} taps, which is kept; leave --conv out", taps,
                where, config.attention.conv_kernel_size.value_or(taps));
  config.attention.conv_kernel_size = taps;
}

void set_positions(ModelConfig& config, const ConvertOptions& options, const ModelFolder& source) {
  const std::string where = printable_path(source.path);
  const std::int64_t old = config.max_position_embeddings, length = options.length.value_or(old);
  require_input(!options.length || config.positions != Positions::none,
                "--length {}: {} has no position table and takes any length; leave --length out",
                length, where);
  require_input(length >= old, "--length {}: {} has {} positions already; choose at least as many",
                length, where, old);
  require_input(options.landmarks <= length,
                "--landmarks {} exceeds the {} positions; a sequence has no more landmarks than "
                "tokens: lower it, or raise --length",
                options.landmarks, length);
  config.attention.num_landmarks = options.landmarks;
  config.max_position_embeddings = length;
  config.segment_means_seq_len = options.length ? length : trained_length(source);
}

ModelConfig converted_config(const ModelFolder& source, const ConvertOptions& options) {
  ModelConfig config = source.config;
  const std::string where = printable_path(source.path);
  require_input(has_exact_attention(config),
                "{}: its attention is {}, and nystrom convert turns exact attention (softmax); "
                "nystrom extend makes a model longer",
                where, describe_kinds(config));
  set_layers(config, options);
  set_convolution(config, options, where);
  set_positions(config, options, source);
  const std::vector<std::string> wrong = messages_of(problems(config));
  require_input(wrong.empty(), "{} as a Nyström encoder: {}", where, fmt::join(wrong, "; "));
  return config;
}

}  // namespace

std::unique_ptr<Model> convert_model(const ModelFolder& source, const ConvertOptions& options) {
  return rebuilt_model(source, converted_config(source, options), options.positions);
}

}  // namespace nystrom
