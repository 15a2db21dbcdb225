// The files of a tokenizer for transformers and for this program.
#include <algorithm>

#include "core/base/json.h"
#include "data/tokenizers/pipeline/part_json.h"
#include "data/tokenizers/pipeline/post_processors.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"

namespace nystrom {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson flags_of(const AddedToken& token) {
  return {{"content", token.content},       {"single_word", token.single_word},
          {"lstrip", token.lstrip},         {"rstrip", token.rstrip},
          {"normalized", token.normalized}, {"special", token.special}};
}

/// Writes prepend_scheme for the older "add_prefix_space": false of each Metaspace, which
/// transformers refuses without it.
void write_prepend_schemes(nlohmann::json& part) {
  if (!part.is_structured()) return;
  for (nlohmann::json& each : part) write_prepend_schemes(each);
  if (!part.is_object() || part.value("type", nlohmann::json()) != "Metaspace" ||
      part.value("add_prefix_space", nlohmann::json()) != false)
    return;
  part.erase("add_prefix_space");
  part["prepend_scheme"] = "never";
}

std::string tokenizer_json(const TokenizerParts& parts, std::int64_t max_length) {
  // A sorted object: vocabularies are large.
  nlohmann::json json = parse_json(parts.json, "tokenizer.json", number_as_it_stands);
  json["version"] = "1.0";
  for (const auto& [key, changed] : parts.changes) json[key] = nlohmann::json::parse(changed);
  for (const char* key : {"pre_tokenizer", "decoder"})
    if (json.contains(key)) write_prepend_schemes(json[key]);
  if (parts.has_own_template)
    json["post_processor"] = post_processor_json(parts.post_processor, parts.vocabulary);
  json["added_tokens"] = nlohmann::json::array();
  std::vector<AddedToken> added = parts.added.all();
  std::ranges::stable_sort(added, {}, &AddedToken::id);  // new tokens are numbered in this order
  for (const AddedToken& token : added) json["added_tokens"].push_back(added_token_json(token));
  if (json.contains("truncation") && json["truncation"].is_object()) {
    json["truncation"]["max_length"] = max_length;
    json["truncation"]["direction"] = "Right";
  }
  if (json.contains("padding") && json["padding"].is_object())
    json["padding"]["direction"] = "Right";
  return tokenizer_json_text(std::move(json));
}

/// PreTrainedTokenizerFast takes tokenizer.json as it is. Version 5 leaves out token_type_ids, and
/// version 4 the space before a text, unless the file says so.
OrderedJson tokenizer_config(const TokenizerParts& parts, bool token_types) {
  const TokenizerSettings& settings = parts.settings;
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto id_of = [&](Role::Index role) {
    return settings.find(role, parts.vocabulary).value_or(no_id);
  };
  const SpecialIds& special = parts.special;
  const std::int32_t ids[roles] = {id_of(Role::bos), id_of(Role::eos), special.unk, special.sep,
                                   special.pad,      special.cls,      special.mask};
  for (std::size_t role = 0; role < roles; ++role)
    if (ids[role] != no_id) config[role_keys[role]] = parts.vocabulary.piece(ids[role]);
  for (const auto* names : {&settings.additional, &settings.own_roles})
    for (const TokenizerSettings::Name& each : *names)
      config["additional_special_tokens"].push_back(each.token);
  OrderedJson decoder = OrderedJson::object();
  for (const AddedToken& token : parts.added.all())
    decoder[std::to_string(token.id)] = flags_of(token);
  config["added_tokens_decoder"] = decoder;
  if (parts.adds_prefix_space) config["add_prefix_space"] = true;
  if (settings.splits_special) config["split_special_tokens"] = true;
  config["model_input_names"] = parts.token_types && token_types
                                    ? OrderedJson{"input_ids", "token_type_ids", "attention_mask"}
                                    : OrderedJson{"input_ids", "attention_mask"};
  config["clean_up_tokenization_spaces"] = settings.clean_up_spaces;
  return config;
}

}  // namespace

std::vector<TokenizerFile> written_files(const TokenizerParts& parts, std::int64_t max_length,
                                         bool token_types) {
  OrderedJson config = tokenizer_config(parts, token_types);
  config["model_max_length"] = max_length;
  return {{"tokenizer.json", tokenizer_json(parts, max_length)},
          {"tokenizer_config.json", config.dump(2) + "\n"}};
}

std::string definition_of(const TokenizerParts& parts) {
  return tokenizer_json(parts, 0) + tokenizer_config(parts, true).dump();
}

}  // namespace nystrom
