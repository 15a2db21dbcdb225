#include "train/plan/step_flops.h"

#include <algorithm>

namespace nystrom {
namespace {

/// Multiply-adds of one layer's attention without the projections of queries, keys and values.
double attention_products(const ModelConfig& model, AttentionKind kind, double sequences,
                          double length) {
  const AttentionConfig& config = model.attention;
  const auto hidden = static_cast<double>(model.hidden_size),
             heads = static_cast<double>(model.num_attention_heads);
  const auto landmarks = static_cast<double>(config.num_landmarks);
  const double width = hidden / heads,
               values = sequences * length * hidden;  // elements of the queries or keys or values
  switch (length <= landmarks && kind == AttentionKind::nystrom ? AttentionKind::softmax : kind) {
    case AttentionKind::nystrom: {
      const double projections = sequences * landmarks * 2 * hidden * hidden;
      const double cube = landmarks * landmarks * landmarks;
      return values * 4 * landmarks + projections +
             sequences * heads * (6 * 4 * cube + 2 * landmarks * landmarks * width);
    }
    case AttentionKind::none: return -values * 4 * hidden;  // its four projections
    case AttentionKind::softmax:
      return values * 2 *
             std::min(length, static_cast<double>(config.window.value_or(1 << 30)) + 1);
    case AttentionKind::double_softmax: return values * 3 * width;
    case AttentionKind::linear: return values * 2 * width;
    case AttentionKind::performer: return values * 5 * static_cast<double>(config.num_features);
    case AttentionKind::linformer:
      return values * 4 * std::min(static_cast<double>(config.projected_length), length);
    /// Each query sees two chunks of keys. The hash has as many directions as there are chunks.
    case AttentionKind::reformer: {
      const auto bucket = static_cast<double>(config.bucket_size);
      return values * static_cast<double>(config.num_hashes) * (4 * bucket + length / bucket);
    }
  }
  return 0;
}

}  // namespace

StepFlops step_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                     double predicted) {
  const auto hidden = static_cast<double>(config.hidden_size),
             wide = static_cast<double>(config.intermediate_size),
             embedded = static_cast<double>(config.embedding_width()),
             words = static_cast<double>(config.vocab_size);
  const double tokens = static_cast<double>(sequences) * static_cast<double>(length);
  const double layers_of_mlp = config.mlp == Mlp::geglu ? 3 : 2;
  const double projections = 3 * hidden * hidden,
               rest = hidden * hidden + layers_of_mlp * hidden * wide;
  const double convolution =
      tokens * hidden * static_cast<double>(config.attention.conv_kernel_size.value_or(0));
  double attention = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    attention += attention_products(config.of_layer(layer), config.kind_of(layer),
                                    static_cast<double>(sequences), static_cast<double>(length));
  const bool masked_lm = config.head == Head::masked_lm,
             masked = masked_lm || config.head == Head::masked_features;
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const double head = masked_lm ? predicted * tokens * embedded * (hidden + words) : 0;
  const double embeddings = embedded != hidden ? tokens * embedded * hidden : 0;
  const double full_layers = masked ? layers - 1 + predicted : layers;
  StepFlops flops = {2 * (embeddings + layers * (tokens * projections + convolution) + attention) +
                         2 * full_layers * tokens * rest,
                     2 * head};
  if (config.head == Head::masked_features)
    flops.head = 2 * predicted * tokens * hidden * static_cast<double>(*config.embed_dim);
  if (config.head == Head::replaced_tokens) flops.head += 2 * tokens * hidden * (hidden + 1);
  if (config.generator) {
    const StepFlops generator = step_flops(generator_of(config), sequences, length, predicted);
    flops.layers += generator.layers;
    flops.head += generator.head;
  }
  return flops;
}

}  // namespace nystrom
