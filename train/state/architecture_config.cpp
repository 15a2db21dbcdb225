#include "train/state/config_parts.h"

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
      {"decoder_bias", true, "nystrom's decoder has a bias", Head::masked_lm},
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

/// The ranges of layers, from 0, for which `has` holds: [1-2, 4-5].
template <class F>
std::vector<std::string> layer_ranges(std::int64_t layers, const F& has) {
  std::vector<std::string> ranges;
  for (std::int64_t first = 0; first < layers; ++first) {
    if (!has(first)) continue;
    std::int64_t last = first;
    while (last + 1 < layers && has(last + 1)) ++last;
    ranges.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
    first = last;
  }
  return ranges;
}

/// Sets the layers with a window: those that layer_types or global_attn_every_n_layers names.
void read_window_layers(Reader& reader, ModelConfig& config) {
  if (config.num_hidden_layers > max_layers) return;  // which problems() refuses
  std::int64_t every = 3;
  reader(every, "global_attn_every_n_layers", "", at_least(1));
  std::vector<bool> local;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) local.push_back(i % every != 0);
  if (const json* types = reader.find("layer_types"); types != nullptr && !types->is_null()) {
    if (!types->is_array() || std::ssize(*types) != config.num_hidden_layers)
      reader.fail("layer_types",
                  fmt::format("expected an array of {} types, got {}", config.num_hidden_layers,
                              types->is_array() ? std::to_string(types->size())
                                                : json_fields::shown(*types)));
    for (std::size_t i = 0; i < types->size(); ++i) {
      const json& type = (*types)[i];
      if (type != "sliding_attention" && type != "full_attention")
        reader.fail_type(fmt::format("layer_types[{}]", i), "sliding_attention or full_attention",
                         type);
      local[i] = type == "sliding_attention";
    }
  }
  config.attention.window_layers = layer_ranges(config.num_hidden_layers, [&](std::int64_t layer) {
    return local[static_cast<std::size_t>(layer)];
  });
  if (!config.attention.window_layers.empty()) return;
  config.attention.window.reset();
  config.local_rope_theta.reset();
}

/// Reads rope_parameters, the newer form of global_rope_theta and local_rope_theta.
void read_rope_parameters(const Reader& reader, ModelConfig& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = reader.find(key);
    if (value != nullptr && !value->is_null() && !value->is_object())
      reader.fail_type(key, "an object or null", *value);
  }
  const json* scaling = reader.find("rope_scaling");
  const auto is_default = [](json of) {  // and nothing else; older files say `type`
    const bool named = of.value("rope_type", of.value("type", json())) == "default";
    of.erase("rope_type");
    of.erase("type");
    return named && of.empty();
  };
  if (scaling != nullptr && !scaling->is_null() && !is_default(*scaling))
    reader.fail(
        "rope_scaling",
        fmt::format("expected null or {{\"rope_type\": \"default\"}}, got {}; the model would "
                    "be another",
                    printable(scaling->dump(), 60)));
  const json* all = reader.find("rope_parameters");
  if (all == nullptr || all->is_null()) return;
  for (const auto& [type, options] : all->items()) {
    const std::string where = "rope_parameters." + printable(type);
    if ((type != "full_attention" && type != "sliding_attention") || !options.is_object())
      reader.fail(where, "expected the objects full_attention and sliding_attention");
    const json kind = options.value("rope_type", options.value("type", json("default")));
    if (kind != "default")
      reader.fail(where + ".rope_type",
                  fmt::format("expected default, got {}; the model would be another",
                              json_fields::shown(kind)));
    const json theta = options.value("rope_theta", json());
    if (theta.is_null()) continue;
    if (!theta.is_number() || !rotation_base.contains(theta.get<double>()))
      reader.fail_type(where + ".rope_theta", describe(rotation_base, false), theta);
    if (type == "full_attention")
      config.rope_theta = theta.get<double>();
    else
      config.local_rope_theta = theta.get<double>();
  }
}

constexpr const char* encoder_biases[] = {"attention_bias", "mlp_bias", "norm_bias"};
constexpr const char* bias_of_head = "classifier_bias";

/// Reads whether there are biases, of which `key` must say the same as the first key.
void read_bias(Reader& reader, const char* key, ModelConfig& config) {
  bool bias = false;
  reader(bias, key);
  if (key == encoder_biases[0]) config.bias = bias;
  if (bias != config.bias)
    reader.fail(key, fmt::format("is {}, and {} is {}; nystrom's encoders have biases everywhere "
                                 "or nowhere",
                                 bias, encoder_biases[0], config.bias));
}

/// Reads the options of ModernBERT's encoder that no other has.
void read_modernbert(Reader& reader, ModelConfig& config) {
  reader(config.attention.window, "local_attention", "", at_least(2));
  // transformers 5 takes it for half of local_attention, and 4 does not read it.
  std::optional<std::int64_t> half;
  reader(half, "sliding_window", "", at_least(1));
  if (half && half != config.attention.window.value_or(0) / 2)
    reader.fail("sliding_window",
                fmt::format("is {}, and local_attention is {}; set local_attention to the width "
                            "that the model was trained with, and remove sliding_window",
                            *half, config.attention.window.value_or(0)));
  reader(config.rope_theta, "global_rope_theta", "", rotation_base);
  reader(config.local_rope_theta, "local_rope_theta", "", rotation_base);
  read_rope_parameters(reader, config);
  if (!config.local_rope_theta) config.local_rope_theta = config.rope_theta;
  read_window_layers(reader, config);
  if (!config.attention.window && !config.attention.window_layers.empty())
    reader.fail_type("local_attention", describe(at_least(2), true), json());
  for (const char* key : encoder_biases) read_bias(reader, key, config);
}

/// Writes the keys of ModernBERT alone, in the form that all versions of transformers read.
void write_modernbert(json_fields::Writer& writer, const ModelConfig& config) {
  const auto write = [&](auto value, const char* name) { writer(value, name, "", any_number); };
  write(config.attention.window.value_or(128), "local_attention");
  write(config.rope_theta, "global_rope_theta");
  write(config.local_rope_theta.value_or(config.rope_theta), "local_rope_theta");
  std::int64_t every = 1;
  while (every < config.num_hidden_layers && config.has_window(every)) ++every;
  write(every, "global_attn_every_n_layers");
  for (const char* key : encoder_biases) write(config.bias, key);
  write(config.bias, bias_of_head);
  write(true, "decoder_bias");
  write(config.transform_activation(), "classifier_activation");
  write(std::string(config.pooling == Pooling::mean ? "mean" : "cls"), "classifier_pooling");
  write(config.bos_token_id, "cls_token_id");
  write(config.eos_token_id, "sep_token_id");
}

/// Visits the fields of ModelConfig with the keys of an architecture.
template <class V>
void fields_by_keys(V& v, ModelConfig& config, const Architecture& architecture) {
  auto keys = [&](auto& member, const char* name, const auto&... rest) {
    const std::string key(architecture.key_of(name));
    if (!key.empty()) v(member, key.c_str(), rest...);
  };
  transformers_fields(keys, config);
}

/// Reads a key that transformers takes for the architecture's own one, as hidden_size for dim.
void read_alias(Reader& reader, std::int64_t& member, const char* alias,
                const Architecture& architecture) {
  const std::string key(architecture.key_of(alias));
  if (key == alias || reader.find(alias) == nullptr) return;
  const std::int64_t own = member;
  reader(member, alias, "", at_least(1));
  if (reader.find(key.c_str()) != nullptr && own != member)
    reader.fail(alias, fmt::format("is {}, and {}, which means the same, is {}; remove one", member,
                                   key, own));
}

}  // namespace

void check_fixed_options(const Reader& reader, std::optional<Head> head,
                         bool has_rotary_positions) {
  for (const FixedOption& option : fixed_options()) {
    // ModernBERT does not read this key, and folders of it hold any value.
    if (has_rotary_positions && option.key == std::string_view("position_embedding_type")) continue;
    const json* value = reader.find(option.key);
    if (value == nullptr || option.head != head || *value == option.only) continue;
    // null means no or none; but positions or activations of null are others than the defaults.
    if (value->is_null() && !option.only.is_string() && option.only != true) continue;
    reader.fail(option.key, fmt::format("expected {}, got {}; {}", option.only.dump(),
                                        json_fields::shown(*value), option.reason));
  }
}

ModelConfig read_architecture(Reader& reader, const Architecture& architecture) {
  ModelConfig config = architecture.defaults;
  check_fixed_options(reader, std::nullopt, config.positions == Positions::rope);
  fields_by_keys(reader, config, architecture);
  read_alias(reader, config.hidden_size, "hidden_size", architecture);
  read_alias(reader, config.num_hidden_layers, "num_hidden_layers", architecture);
  read_alias(reader, config.num_attention_heads, "num_attention_heads", architecture);
  if (config.embedding_size) reader(config.embedding_size, "embedding_size", "", at_least(1));
  if (config.positions == Positions::rope) read_modernbert(reader, config);
  if (config.positions != Positions::skip_padding) return config;
  if (!config.pad_token_id) reader.fail_type("pad_token_id", "a whole number at least 0", nullptr);
  // The rows up to that of padding belong to no position.
  config.position_offset = *config.pad_token_id + 1;
  config.max_position_embeddings -= config.position_offset;
  if (config.max_position_embeddings < 1)
    reader.fail("max_position_embeddings",
                fmt::format("expected at least {}, because positions begin behind row "
                            "pad_token_id {}; got {}",
                            config.position_offset + 1, *config.pad_token_id,
                            config.max_position_embeddings + config.position_offset));
  return config;
}

void read_head_options(Reader& reader, ModelConfig& config, bool own) {
  if (config.positions != Positions::rope) return;
  const auto read = [&](const auto& option) {
    try {
      option();
    } catch (const InputError&) {
      if (own) throw;
    }
  };
  read([&] {
    std::string pooling = "cls";
    reader(pooling, "classifier_pooling");
    if (pooling != "cls" && pooling != "mean")
      reader.fail("classifier_pooling",
                  fmt::format("expected cls or mean, got {}", printable(pooling)));
    config.pooling = pooling == "mean" ? Pooling::mean : Pooling::first;
  });
  read([&] { reader(config.transform_act, "classifier_activation"); });
  read([&] { read_bias(reader, bias_of_head, config); });
}

void write_architecture(json_fields::Writer& writer, ModelConfig config,
                        const Architecture& architecture) {
  if (config.positions == Positions::skip_padding)
    config.max_position_embeddings += config.position_offset;
  fields_by_keys(writer, config, architecture);
  if (architecture.defaults.positions == Positions::rope) write_modernbert(writer, config);
  std::int64_t width = config.embedding_width();
  if (architecture.defaults.embedding_size) writer(width, "embedding_size", "", at_least(1));
}

}  // namespace nystrom
