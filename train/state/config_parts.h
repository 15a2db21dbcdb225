// The fields of ModelConfig in the two parts of config.json: those of transformers' classes, and
// those of the `nystrom` block.
#pragma once

#include <algorithm>
#include <string_view>

#include "nn/model_config.h"

namespace nystrom {

/// Fields of ModelConfig that Hugging Face's class does not have. They are stored in the `nystrom`
/// block.
inline bool is_block_field(std::string_view name) {
  constexpr std::string_view names[] = {"norm",
                                        "final_norm",
                                        "first_attention_norm",
                                        "mlp",
                                        "bias",
                                        "positions",
                                        "rope_theta",
                                        "local_rope_theta",
                                        "position_offset",
                                        "embedding_size",
                                        "transform_act",
                                        "classifier_act",
                                        "head_transform",
                                        "pooling",
                                        "pairs",
                                        "embed_dim",
                                        "attention",
                                        "embedding"};
  return std::ranges::find(names, name) != std::end(names);
}

/// Visits the fields of the `nystrom` block, or all other fields.
template <class V>
void part_of_fields(V& v, ModelConfig& config, bool block) {
  auto part = [&](auto& member, const char* name, const auto&... rest) {
    if (is_block_field(name) == block) v(member, name, rest...);
  };
  fields(part, config);
}

/// Visits the fields that have the same names in transformers' classes.
template <class V>
void transformers_fields(V& v, ModelConfig& config) {
  part_of_fields(v, config, false);
  v(config.pad_token_id, "pad_token_id", "", at_least(0));
}

}  // namespace nystrom
