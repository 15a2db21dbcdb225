#include "train/state/hf_config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "nn/layer_kinds.h"
#include "train/state/config_parts.h"
#include "train/state/other_models.h"
#include "train/state/transformers_class.h"

namespace nystrom {
namespace {

using json_fields::listed;
using json_fields::Reader;
using json_fields::shown;
using json_fields::Writer;
using nlohmann::json;

/// The part of a class's name that says its head: "ForMaskedLM", "Model", …
std::string head_suffix(Head head) {
  constexpr std::string_view prefix = "Nystromformer";
  return std::string(enum_name(head)).substr(prefix.size());
}

constexpr const char* block_name = "nystrom";
constexpr const char* own_type = "nystrom";
constexpr const char* transformers_type = "nystromformer";
constexpr const char* regression = "regression";
constexpr const char* classification = "single_label_classification";
constexpr const char* multi_label = "multi_label_classification";
constexpr std::int64_t max_labels = 1'000'000;

/// Hugging Face's problem_type of a sequence head. Null for other heads, which have none.
const char* problem_type(const ModelConfig& config) {
  if (config.head != Head::sequence_classification) return nullptr;
  return config.multi_label ? multi_label : config.num_labels() == 1 ? regression : classification;
}

/// Where transformers' Auto classes find the classes of python/export/.
json auto_map() {
  json map = {{"AutoConfig", "configuration_nystrom.NystromConfig"}};
  for (const auto& entry : enum_names(Head{}))
    if (entry.value != Head::masked_features)  // which has no class there
      map[auto_class(entry.value)] = "modeling_nystrom." + own_class(entry.value);
  return map;
}

template <class V>
void outer_fields(V& v, ModelConfig& config) {
  transformers_fields(v, config);
  v(config.attention.num_landmarks, "num_landmarks", "", at_least(1));
  v(config.segment_means_seq_len, "segment_means_seq_len", "", at_least(1));
}

/// Refuses options that change the mathematics of every model.
void check_flags(const Reader& reader, const Architecture* architecture) {
  const auto refuse = [&](const char* key, const char* reason) {
    const json* value = reader.find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) reader.fail_type(key, "true or false", *value);
    if (*value == true) reader.fail(key, reason);
  };
  for (const char* key : {"is_decoder", "causal", "is_causal"}) {
    const json* value = reader.find(key);
    if (value != nullptr && value->is_null()) continue;
    refuse(key, architecture != nullptr
                    ? "a decoder reads earlier tokens only, and an encoder reads all; set it to "
                      "false if the model was trained as an encoder"
                    : "a causal Nyström model cannot be built: landmarks are means over the whole "
                      "sequence, so every position would see the future; set it to false");
  }
  refuse("inv_coeff_init_option",
         "true crashes in transformers, so no model was made with it; set it to false");
}

/// Refuses the oldest folders of BERT's family, which have no model_type. Those of a Nyströmformer
/// may lack it.
void refuse_absent_type(const Reader& reader) {
  // Google's first BERT folders have neither model_type nor architectures.
  const auto has = [&](const char* key) { return reader.find(key) != nullptr; };
  if (has("attention_probs_dropout_prob") && !has("num_landmarks") && !has(block_name) &&
      !has("segment_means_seq_len") && !has("conv_kernel_size") && !has("architectures"))
    reader.fail("model_type",
                "is missing, and no key is a Nyströmformer's; add \"model_type\": \"bert\" if the "
                "model is a BERT");
  const json* classes = reader.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->size() != 1) return;
  for (const Architecture& each : architectures())
    for (const auto& head : enum_names(Head{}))
      if (classes->front() == architecture_class(each, head.value))
        reader.fail("model_type",
                    fmt::format("is missing; a {} has \"{}\"", classes->front().get<std::string>(),
                                each.model_type));
}

/// The architecture of a folder of BERT's family; null for a Nyströmformer.
const Architecture* named_architecture(const Reader& reader) {
  const json* type = reader.find("model_type");
  if (type == nullptr) refuse_absent_type(reader);
  if (type == nullptr || *type == transformers_type) return nullptr;
  if (*type == own_type) {
    if (reader.find(block_name) == nullptr)
      reader.fail(block_name,
                  "is missing; a folder of model_type \"nystrom\" has its options there");
    return nullptr;
  }
  std::vector<std::string> known = {own_type, transformers_type};
  for (const Architecture& each : architectures()) {
    if (*type == each.model_type) return &each;
    known.emplace_back(each.model_type);
  }
  std::string reason = type->is_string() ? why_not_read(type->get<std::string>()) : "";
  if (reason.empty() && reader.find("auto_map") != nullptr)
    reason = "its own Python code computes it, which is never run";
  reader.fail("model_type",
              fmt::format("expected one of {}, got {}{}; take a model of a listed type",
                          listed(known), shown(*type), reason.empty() ? "" : ": " + reason));
}

/// The way that remains for a head that nystrom lacks.
constexpr const char* encoder_remains =
    "; nystrom embed, and a run with model.fresh_head: true, read the encoder alone";

/// Reads problem_type. Without it a head with one output is a regression and any other gives one
/// label. A folder with another type would be run wrongly.
void read_problem_type(const Reader& reader, ModelConfig& config) {
  const json* value = reader.find("problem_type");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_string()) reader.fail_type("problem_type", "a string or null", *value);
  config.multi_label = *value == multi_label;
  if (config.multi_label && config.head != Head::sequence_classification)
    reader.fail("problem_type", fmt::format("{} is for a text; a word has one label{}", multi_label,
                                            encoder_remains));
  if (!config.multi_label && *value != regression && *value != classification)
    reader.fail_type(
        "problem_type",
        fmt::format("\"{}\", \"{}\", \"{}\" or null", classification, multi_label, regression),
        *value);
  const char* expected = problem_type(config);
  if (expected != nullptr && *value != expected)
    reader.fail(
        "problem_type",
        fmt::format("{} with {} labels; here a head of one label is a regression, any other "
                    "a classification{}",
                    value->get<std::string>(), config.labels.size(), encoder_remains));
}

/// The classes of a folder, with their heads.
std::vector<std::pair<std::string, Head>> classes_of(const Architecture* architecture) {
  std::vector<std::pair<std::string, Head>> classes;
  const std::string prefix(architecture != nullptr ? architecture->class_prefix : "Nystromformer");
  for (const auto& entry : enum_names(Head{}))
    if (architecture == nullptr ||
        (entry.value != Head::replaced_tokens && entry.value != Head::masked_features))
      classes.emplace_back(prefix + head_suffix(entry.value), entry.value);
  if (architecture != nullptr && architecture->of_pretraining)
    classes.emplace_back(prefix + "ForPreTraining", *architecture->of_pretraining);
  return classes;
}

Head read_head(const Reader& reader, const Architecture* architecture) {
  const json* value = reader.find("architectures");
  if (value == nullptr || (architecture != nullptr && value->is_null())) return Head::none;
  std::vector<std::string> known;
  for (const auto& [name, head] : classes_of(architecture)) {
    const bool own = architecture == nullptr && *value == json::array({own_class(head)});
    if (own || *value == json::array({name})) return head;
    known.push_back(name);
  }
  const bool one = value->is_array() && value->size() == 1;
  const std::string got = one                 ? shown(value->front())
                          : value->is_array() ? fmt::format("an array of {}", value->size())
                                              : shown(*value);
  reader.fail("architectures", fmt::format("expected an array with one of {}; got {}{}",
                                           listed(known), got, encoder_remains));
}

std::vector<std::string> read_labels(Reader& reader) {
  std::vector<std::string> labels;
  if (const json* names = reader.find("id2label"); names != nullptr && !names->is_null()) {
    if (!names->is_object() || names->empty())
      reader.fail_type("id2label", "an object of labels", *names);
    for (std::size_t i = 0; i < names->size(); ++i) {
      const std::string key = std::to_string(i);
      if (!names->contains(key))
        reader.fail("id2label",
                    fmt::format("expected the keys \"0\" to \"{}\", \"{}\" is missing; number the "
                                "labels from 0{}",
                                names->size() - 1, key, encoder_remains));
      const json& label = (*names)[key];
      if (!label.is_string() && !label.is_number_integer())
        reader.fail_type("id2label." + key, "a string", label);
      labels.push_back(label.is_string() ? label.get<std::string>() : label.dump());
    }
    return labels;
  }
  std::int64_t count = 2;
  reader(count, "num_labels", "", between(1, max_labels));
  return unnamed_labels(count);
}

/// Reads a token id that this program does not use. Other programs may write any value.
std::optional<std::int64_t> read_idle_id(const Reader& reader, const char* name) {
  const json* value = reader.find(name);
  if (value == nullptr || !value->is_number_unsigned() ||
      value->get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    return std::nullopt;
  return value->get<std::int64_t>();
}

/// The keys of a Nyströmformer, own or transformers'.
ModelConfig read_nystromformer(Reader& reader, const std::string& source) {
  ModelConfig config;
  config.max_position_embeddings = 510;  // Hugging Face's defaults, here and below
  config.attention.conv_kernel_size = 65;
  outer_fields(reader, config);
  reader(config.attention.conv_kernel_size, "conv_kernel_size", "", odd_positive);
  check_fixed_options(reader, std::nullopt);
  const json* block = reader.find(block_name);
  config.attention.semantics = block != nullptr ? Semantics::nystrom : Semantics::transformers;
  if (block == nullptr) return config;
  if (!block->is_object()) reader.fail_type(block_name, "an object", *block);
  Reader inner(*block, source, std::string(block_name) + ".");
  part_of_fields(inner, config, true);
  inner(config.sentence_order, "sentence_order");
  inner.refuse_unknown();
  return config;
}

/// The configuration with the head that the file names, and its options.
ModelConfig with_head(ModelConfig config, Reader& reader, const Architecture* architecture) {
  config.head = read_head(reader, architecture);
  if (architecture != nullptr) check_fixed_options(reader, config.head);
  if (architecture != nullptr && config.head != Head::none) read_head_options(reader, config, true);
  if (config.head == Head::sequence_classification || config.head == Head::token_classification) {
    config.labels = read_labels(reader);
    read_problem_type(reader, config);
  }
  return config;
}

/// Adds the keys of every class to those in `root`, and returns the text of the file. transformers
/// keeps the order of id2label, which is that of the outputs.
std::string with_common_keys(json root, const ModelConfig& config) {
  nlohmann::ordered_json names = nlohmann::ordered_json::object();
  root["transformers_version"] = "4.57.1";
  root["bos_token_id"] = Writer::value_of(config.bos_token_id);
  root["eos_token_id"] = Writer::value_of(config.eos_token_id);
  if (config.tie_word_embeddings) root.erase("tie_word_embeddings");  // Hugging Face's default
  if (const char* problem = problem_type(config)) root["problem_type"] = problem;
  if (config.labels != ModelConfig{}.labels) {  // Hugging Face omits its defaults too
    for (std::size_t i = 0; i < config.labels.size(); ++i) {
      names.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(std::to_string(i),
                                                                      config.labels[i]);
      root["label2id"][config.labels[i]] = i;
    }
  }
  nlohmann::ordered_json file = root;
  if (!names.empty()) file["id2label"] = names;
  try {
    return file.dump(2, ' ', true) + "\n";
  } catch (const json::type_error&) {
    throw InputError(
        fmt::format("labels: expected UTF-8, got {}", printable(listed(config.labels))));
  }
}

/// The options that decide what an exact encoder with this head computes, by name.
json compared_keys(ModelConfig config) {
  const bool pools =
      config.head == Head::sequence_classification || config.head == Head::multiple_choice;
  const bool labelled = config.head != Head::masked_lm && config.head != Head::replaced_tokens &&
                        config.head != Head::masked_features && config.head != Head::none;
  config.head_transform = config.head_transform && labelled;
  config.transform_act = config.head == Head::masked_lm || config.head_transform
                             ? std::optional(config.transform_activation())
                             : std::nullopt;
  config.classifier_act = pools && !config.head_transform
                              ? std::optional(config.classifier_activation())
                              : std::nullopt;
  config.embedding_size = config.embedding_width();
  if (!pools) config.pooling = Pooling::first;
  if (!config.has_towers()) config.pairs = Pairs::joined;
  if (!config.local_rope_theta)
    config.local_rope_theta = config.rope_theta;  // what null stands for
  json keys = json::object();
  Writer writer{keys};
  fields(writer, config);
  writer(config.pad_token_id, "pad_token_id", "", at_least(0));
  for (const char* apart : {"attention", "embedding"}) keys.erase(apart);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    keys["attention.window"].push_back(config.has_window(i) ? config.attention.window.value_or(0)
                                                            : 0);
  keys.erase("hidden_dropout_prob");  // of training alone
  // Options of positions that the model lacks.
  if (!config.has_position_table()) keys.erase("position_offset");
  if (config.positions != Positions::rope) keys.erase("rope_theta");
  if (!config.attention.window) keys.erase("local_rope_theta");
  if (config.head != Head::masked_lm) keys.erase("tie_word_embeddings");
  return keys;
}

/// The first option that `theirs`, a model of `whose`, reads otherwise; empty if none.
std::string first_difference(const json& ours, const json& theirs, const std::string& whose) {
  // An option that they lack depends on another one, which differs.
  for (const auto& [key, value] : ours.items())
    if (theirs.contains(key) && theirs.at(key) != value)
      return fmt::format("{} is {}, and {} has {}", key, value.dump(), whose,
                         theirs.at(key).dump());
  return "";
}

}  // namespace

bool stand_for(const std::vector<std::string>& outputs, const std::vector<std::string>& labels) {
  const std::vector<std::string> unnamed = unnamed_labels(std::ssize(labels));
  return outputs == unnamed && std::ranges::none_of(labels, [&](const std::string& label) {
           return std::ranges::find(unnamed, label) != unnamed.end();
         });
}

std::vector<std::string> unnamed_labels(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

std::string own_class(Head head) { return "Nystrom" + head_suffix(head); }

std::string architecture_class(const Architecture& architecture, Head head) {
  return std::string(architecture.class_prefix) + head_suffix(head);
}

std::string auto_class(Head head) {
  return head == Head::none ? "AutoModel" : "AutoModel" + head_suffix(head);
}

ModelConfig parse_hf_config(std::string_view text, const std::string& source) {
  const ModelConfig config = read_hf_keys(parse_json(text, source), source);
  require_none(source, problems(config));
  return config;
}

ModelConfig read_hf_keys(const json& config_json, const std::string& source, HeadUse use) {
  require_input(config_json.is_object(), "{}: expected an object, got {}", source,
                shown(config_json));
  Reader reader(config_json, source);
  const Architecture* architecture = named_architecture(reader);
  check_flags(reader, architecture);
  ModelConfig config = architecture != nullptr ? read_architecture(reader, *architecture)
                                               : read_nystromformer(reader, source);
  config.head = Head::none;
  config.bos_token_id = read_idle_id(reader, "bos_token_id");
  config.eos_token_id = read_idle_id(reader, "eos_token_id");
  if (architecture != nullptr) read_head_options(reader, config, false);
  if (use == HeadUse::discarded) return config;
  try {
    return with_head(config, reader, architecture);
  } catch (const InputError&) {
    if (use == HeadUse::kept) throw;
    return config;
  }
}

bool names_head(const json& config_json, Head head) {
  const json classes = config_json.value("architectures", json());
  return classes.is_array() && std::ranges::any_of(classes, [&](const json& name) {
           return name.is_string() && name.get<std::string>().ends_with(head_suffix(head));
         });
}

bool names_class(const json& config_json) {
  return !config_json.value("architectures", json()).is_null();
}

const Architecture* architecture_of(const json& config_json) {
  const json type = config_json.value("model_type", json());
  return type.is_string() ? find_architecture(type.get<std::string>()) : nullptr;
}

bool names_transformers_class(const json& config_json) {
  return config_json.value("model_type", json(transformers_type)) == transformers_type;
}

void set_text_ends(ModelConfig& config, const SpecialIds& special) {
  const auto id_or_none = [](std::int32_t id) {
    return id == no_id ? std::nullopt : std::optional<std::int64_t>(id);
  };
  config.bos_token_id = id_or_none(special.cls);
  config.eos_token_id = id_or_none(special.sep);
}

std::string hf_config_text(const ModelConfig& config, NamedClasses classes) {
  ModelConfig copy = config;  // field lists need a mutable struct
  const bool computed = computed_by_transformers(config);
  if (config.has_only(AttentionKind::softmax) && computed)
    copy.segment_means_seq_len = config.attention.num_landmarks;
  json root = json::object();
  Writer writer{root};
  outer_fields(writer, copy);
  json block = json::object();
  Writer block_writer{block};
  part_of_fields(block_writer, copy, true);
  if (config.embedding == EmbeddingConfig{}) block.erase("embedding");
  if (config.sentence_order) block["sentence_order"] = true;
  root[block_name] = block;
  root["conv_kernel_size"] = config.attention.conv_kernel_size.value_or(1);
  const bool theirs = classes == NamedClasses::of_transformers || computed;
  root["architectures"] = json::array({theirs ? enum_name(config.head) : own_class(config.head)});
  root["model_type"] = theirs ? transformers_type : own_type;
  if (classes == NamedClasses::in_folder) root["auto_map"] = auto_map();
  root["attention_probs_dropout_prob"] = 0.0;  // exports of runs as BERT keep it
  root["inv_coeff_init_option"] = false;
  return with_common_keys(std::move(root), config);
}

std::string hf_config_text(const ModelConfig& config, const Architecture& architecture) {
  json root = json::object();
  Writer writer{root};
  write_architecture(writer, config, architecture);
  root["architectures"] = json::array({architecture_class(architecture, config.head)});
  root["model_type"] = architecture.model_type;
  return with_common_keys(std::move(root), config);
}

std::string architecture_obstacle(const ModelConfig& config, const Architecture& architecture) {
  if (!config.has_only(AttentionKind::softmax))
    return fmt::format("its attention is {}, and that of model_type {} is exact",
                       describe_kinds(config), architecture.model_type);
  if (config.attention.conv_kernel_size)
    return fmt::format("its attention has a convolution, and that of model_type {} has none",
                       architecture.model_type);
  if (config.type_vocab_size == 0 && !architecture.key_of("type_vocab_size").empty())
    return fmt::format("type_vocab_size is 0, and a model of model_type {} always adds token types",
                       architecture.model_type);
  if (config.head == Head::replaced_tokens && architecture.of_pretraining != config.head)
    return fmt::format("its head tells replaced tokens, and model_type {} has no such head",
                       architecture.model_type);
  const json ours = compared_keys(config);
  const std::string text = hf_config_text(config, architecture);
  json theirs;
  try {
    const char* source = "the exported config.json";
    theirs = compared_keys(read_hf_keys(parse_json(text, source), source));
  } catch (const InputError& error) {
    return error.what();  // RoBERTa's positions behind a late padding token
  }
  return first_difference(ours, theirs,
                          fmt::format("a folder of model_type {}", architecture.model_type));
}

std::string obstacle_of_structure(const ModelConfig& config) {
  constexpr const char* theirs = "transformers' Nyströmformer";
  const auto against = [&](const std::string& ours, const char* other) {
    return fmt::format("{}, and {} {}", ours, theirs, other);
  };
  if (config.head == Head::replaced_tokens)
    return against("its head tells replaced tokens", "has no such class");
  if (config.head_transform)
    return against("head_transform is true", "has it in its masked-LM head alone");
  if (config.type_vocab_size == 0)
    return against("type_vocab_size is 0", "always adds token types");
  for (const auto& [kind, name] : enum_names(AttentionKind{})) {
    const bool known = kind == AttentionKind::nystrom || kind == AttentionKind::softmax;
    if (!known && config.has_kind(kind))
      return against(fmt::format("attention.kind is {}", name),
                     "has Nyström and exact attention only");
  }
  if (config.has_kind(AttentionKind::nystrom) && config.has_kind(AttentionKind::softmax))
    return against("attention.layers mixes Nyström and exact attention",
                   "has one kind in all layers");
  ModelConfig defaults, usual = config;  // its class has the options of the block as they begin
  json block = json::object();
  Writer writer{block};
  part_of_fields(writer, defaults, true);
  Reader reader(block, theirs);
  part_of_fields(reader, usual, true);
  return first_difference(compared_keys(config), compared_keys(usual), theirs);
}

}  // namespace nystrom
