// The attention kinds of layers: reading and describing `model.attention.layers`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nn/model_config.h"

namespace nystrom {

/// Consecutive layers, from 0, both ends included.
struct LayerRange {
  std::int64_t first = 0, last = 0;
};

/// The layers that "11" or "0-3" names. Nothing if the text is neither, or ends before it begins.
std::optional<LayerRange> parse_layer_range(std::string_view text);

/// The rules that attention.layers breaks: malformed ranges, layers that the model lacks, and
/// layers that are named twice.
Problems layer_problems(const ModelConfig& config);

/// The attention of a model in words: "nystrom", "nystrom (layers 0-3: softmax)", or "softmax,
/// window 128 in layers 1-2".
std::string describe_kinds(const ModelConfig& config);

}  // namespace nystrom
