// The fields of ModelConfig in the two parts of config.json: those of transformers' classes, and
// those of the `nystrom` block.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

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

/// Passes on the fields of the `nystrom` block, or all other fields.
template <class V>
struct ConfigPart {
  V& visitor;
  bool block;

  template <class T, class... Rest>
  void operator()(T& member, const char* name, Rest&&... rest) {
    if (is_block_field(name) == block) visitor(member, name, std::forward<Rest>(rest)...);
  }
};

/// Visits the fields of the `nystrom` block.
template <class V>
void block_fields(V& v, ModelConfig& config) {
  ConfigPart<V> part{v, true};
  fields(part, config);
}

/// Visits the fields that have the same names in transformers' classes.
template <class V>
void transformers_fields(V& v, ModelConfig& config) {
  ConfigPart<V> part{v, false};
  fields(part, config);
  v(config.pad_token_id, "pad_token_id", "", at_least(0));
}

}  // namespace nystrom
