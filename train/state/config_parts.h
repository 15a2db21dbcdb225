// The parts of config.json: the fields of ModelConfig that transformers' classes have, those of the
// `nystrom` block, and the options of BERT's family (architecture_config.cpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "train/config/json_fields.h"
#include "train/state/architecture.h"

namespace nystrom {

/// Fields of ModelConfig that Hugging Face's class does not have. They are stored in the `nystrom`
/// block.
inline bool is_block_field(const std::string& name) {
  constexpr std::string_view names =
      " norm final_norm first_attention_norm mlp bias positions rope_theta local_rope_theta "
      "position_offset embedding_size transform_act classifier_act head_transform pooling pairs "
      "embed_dim attention embedding ";
  return names.find(" " + name + " ") != names.npos;
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

/// Reads the options of the encoder of a folder with this architecture. Absent keys have the
/// defaults of its class. Throws an InputError for a wrong value, and for an option of the encoder
/// that nystrom lacks and that changes results.
ModelConfig read_architecture(json_fields::Reader& reader, const Architecture& architecture);

/// Reads the options of the heads, beside those of check_fixed_options, into what read_architecture
/// returned. Throws an InputError for those that nystrom lacks if the model has the folder's `own`
/// head; a new head has them as it begins.
void read_head_options(json_fields::Reader& reader, ModelConfig& config, bool own);

/// Writes the keys that both read, the inverse.
void write_architecture(json_fields::Writer& writer, ModelConfig config,
                        const Architecture& architecture);

/// Throws an InputError for an option of `head`, or without one of the encoder, that nystrom lacks
/// and that changes results.
void check_fixed_options(const json_fields::Reader& reader, std::optional<Head> head,
                         bool has_rotary_positions = false);

/// The reason why transformers' Nyströmformer cannot run the model, apart from its length; empty if
/// none.
std::string obstacle_of_structure(const ModelConfig& config);

}  // namespace nystrom
