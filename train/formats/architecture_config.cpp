#include "train/formats/architecture_config.h"

#include "train/formats/config_parts.h"

namespace nystrom {
namespace {

using json_fields::Reader;
using nlohmann::json;

/// An option that may have one value only, because nystrom computes no other.
struct FixedOption {
  const char* key;
  json only;
  const char* reason;
  std::optional<Head> head = std::nullopt;  ///< the head that depends on it; nothing: the encoder
};

/// The options that change results, with the values of all encoders that nystrom can keep.
std::vector<FixedOption> fixed_options() {
  return {
      {"position_embedding_type", "absolute",
       "nystrom has no relative positions, and without them the model is another"},
      {"add_cross_attention", false, "nystrom has no cross attention; choose an encoder"},
      {"is_encoder_decoder", false, "nystrom has no decoder; choose an encoder"},
      {"summary_type", "first", "nystrom's choice head reads the first token",
       Head::multiple_choice},
      {"summary_use_proj", true, "nystrom's choice head has a projection", Head::multiple_choice},
      {"summary_activation", "gelu", "nystrom's choice head of ELECTRA has gelu",
       Head::multiple_choice},
      {"pruned_heads", json::object(), "nystrom's layers have all their heads"},
      {"quantization_config", nullptr,
       "nystrom reads plain weights; save the model without quantization"},
  };
}

void check_fixed_options(const Reader& reader, std::optional<Head> head) {
  for (const FixedOption& option : fixed_options()) {
    const json* value = reader.find(option.key);
    if (value == nullptr || option.head != head || *value == option.only || value->is_null())
      continue;
    reader.fail(option.key, fmt::format("expected {}, got {}; {}", option.only.dump(),
                                        json_fields::shown(*value), option.reason));
  }
}

/// Passes the fields of ModelConfig on with the keys of an architecture.
template <class V>
struct KeysOf {
  V& visitor;
  const Architecture& architecture;

  template <class T, class... Rest>
  void operator()(T& member, const char* name, Rest&&... rest) {
    const std::string key(architecture.key_of(name));
    if (!key.empty()) visitor(member, key.c_str(), std::forward<Rest>(rest)...);
  }
};

}  // namespace

void check_head_options(const Reader& reader, Head head) { check_fixed_options(reader, head); }

ModelConfig read_architecture(Reader& reader, const Architecture& architecture) {
  check_fixed_options(reader, std::nullopt);
  ModelConfig config = architecture.defaults;
  KeysOf<Reader> keys{reader, architecture};
  transformers_fields(keys, config);
  if (config.embedding_size) reader(config.embedding_size, "embedding_size", "", at_least(1));
  if (config.positions != Positions::skip_padding) return config;
  // The rows up to that of padding belong to no position.
  config.position_offset = config.pad_token_id + 1;
  config.max_position_embeddings -= config.position_offset;
  if (config.max_position_embeddings < 1)
    reader.fail("max_position_embeddings",
                fmt::format("expected at least {}, because positions begin behind row "
                            "pad_token_id {}; got {}",
                            config.position_offset + 1, config.pad_token_id,
                            config.max_position_embeddings + config.position_offset));
  return config;
}

void write_architecture(json_fields::Writer& writer, ModelConfig config,
                        const Architecture& architecture) {
  if (config.positions == Positions::skip_padding)
    config.max_position_embeddings += config.position_offset;
  KeysOf<json_fields::Writer> keys{writer, architecture};
  transformers_fields(keys, config);
  std::int64_t width = config.embedding_width();
  if (architecture.defaults.embedding_size) writer(width, "embedding_size", "", at_least(1));
}

}  // namespace nystrom
