#include "data/tokenizers/pipeline/tokenizer_settings.h"

#include <algorithm>
#include <set>

#include "core/base/json.h"
#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/pipeline_tokenizer.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Name = TokenizerSettings::Name;

// ---- Reading ------------------------------------------------------------------------------------

/// Calls use(root) for a JSON file, if it is there.
template <class Use>
void read_if_there(const std::filesystem::path& file, const Use& use) {
  if (!std::filesystem::exists(file)) return;
  const Json json = read_json_file(file);
  use(JsonPart(json, printable_path(file)));
}

/// Reads a string, or an object with the token's flags.
Name read_name(const JsonPart& part) {
  Name name{"", part.where(), std::nullopt};
  if (part.value().is_object()) {
    name.flags = read_added_token(part);
    name.flags->special = true;
    name.flags->normalized = part.boolean_or("normalized", false);  // the default of a special one
    name.token = name.flags->content;
  } else {
    name.token = part.text();
  }
  return name;
}

/// Reads the names in the file. Earlier names stay where the file has none.
void read_names(const JsonPart& file, TokenizerSettings& settings) {
  for (std::size_t role = 0; role < roles; ++role)
    if (const auto part = file.find(role_keys[role])) settings.names[role] = read_name(*part);
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto list = file.find(key);
    if (list && list->value().is_array())
      for (const JsonPart& each : list->elements()) settings.additional.push_back(read_name(each));
    if (list && list->value().is_object())  // in version 4
      for (const auto& [role, name] : list->members())
        settings.own_roles.push_back(read_name(name));
  }
}

/// A special token and the place in a file that names it; null for a default of the class.
struct SpecialToken {
  std::string content;
  std::size_t role;  // `roles` for one without a role
  const Name* name;
};

/// The special tokens in transformers' order: by their roles, then those without a role.
std::vector<SpecialToken> special_tokens_of(const TokenizerSettings& settings) {
  std::vector<SpecialToken> tokens;
  for (std::size_t role = 0; role < roles; ++role) {
    const auto& name = settings.names[role];
    const std::string content = settings.name_of(static_cast<Role::Index>(role));
    if (name || !content.empty()) tokens.push_back({content, role, name ? &*name : nullptr});
  }
  for (const Name& each : settings.additional) tokens.push_back({each.token, roles, &each});
  if (settings.its_class != nullptr && settings.additional.empty())  // they replace the class's
    for (const std::string_view content : words_between(settings.its_class->more_names, " "))
      tokens.push_back({std::string(content), roles, nullptr});
  constexpr int sentinels = 100;  // of T5
  const auto is_sentinel = [](const Name& each) {
    return each.token.find("<extra_id_") != each.token.npos;
  };
  if (settings.its_class != nullptr && settings.its_class->name == "T5Tokenizer" &&
      std::ranges::none_of(settings.additional, is_sentinel))
    for (int i = 0; i < sentinels; ++i)
      tokens.push_back({fmt::format("<extra_id_{}>", i), roles, nullptr});
  for (const Name& each : settings.own_roles)
    if (std::ranges::find(tokens, each.token, &SpecialToken::content) == tokens.end())
      tokens.push_back({each.token, roles, &each});
  return tokens;
}

void read_flags(const JsonPart& config, TokenizerSettings& settings) {
  const std::pair<const char*, std::optional<bool>*> flags[] = {
      {"do_lower_case", &settings.lower_case},
      {"strip_accents", &settings.strip_accents},
      {"keep_accents", &settings.keep_accents},
      {"tokenize_chinese_chars", &settings.tokenize_chinese_chars},
      {"add_prefix_space", &settings.add_prefix_space},
      {"trim_offsets", &settings.trim_offsets},
      {"add_bos_token", &settings.add_bos_token},
      {"add_eos_token", &settings.add_eos_token}};
  for (const auto& [key, flag] : flags)
    if (const auto part = config.find(key)) *flag = part->boolean();
}

/// Reads {"id": token with its flags}.
void read_decoder(const JsonPart& part, TokenizerSettings& settings) {
  settings.has_decoder = true;
  settings.added_place = part.where();
  for (const auto& [key, value] : part.members("an object from ids to tokens")) {
    AddedToken token = read_added_token(value);
    token.id = number_of<std::int32_t>(key).value_or(-1);
    if (token.id < 0) part.fail(fmt::format("'{}' is no id", printable(key)));
    settings.added.push_back(std::move(token));
  }
}

/// Reads the older format {"token": id}.
void read_added_file(const JsonPart& map, TokenizerSettings& settings) {
  settings.added_place = map.file();
  std::set<std::string> named;
  for (const SpecialToken& each : special_tokens_of(settings))
    if (each.name != nullptr) named.insert(each.content);
  for (const auto& [content, id] : map.members("an object from tokens to ids")) {
    AddedToken token{.content = content,
                     .id = static_cast<std::int32_t>(id.integer(0, max_pieces))};
    if (content.empty()) map.fail("a token is empty");
    token.special = named.count(content) > 0;
    token.normalized = !token.special;
    settings.added.push_back(std::move(token));
  }
}

// ---- Classes of transformers --------------------------------------------------------------------

/// Sets the class that a file names.
void set_class(const JsonPart& name, TokenizerSettings& settings) {
  settings.its_class = find_tokenizer_class(name.text());
  if (settings.its_class == nullptr)
    name.fail(fmt::format(
        "{} needs Python or rules of its own, or transformers 4.57 does not have it; "
        "nystrom reads classes that work from their files alone, such as BertTokenizer or "
        "PreTrainedTokenizerFast: choose a model with such a tokenizer",
        printable(name.text())));
}

/// Sets the class that config.json names, or that of its model_type.
void read_class_of_model(const JsonPart& config, TokenizerSettings& settings) {
  if (!config.value().is_object()) return;
  if (const auto name = config.find("tokenizer_class")) {
    set_class(*name, settings);
  } else if (const auto type = config.find("model_type"); type && type->value().is_string()) {
    settings.its_class = tokenizer_class_of_model(type->text());
    if (needs_python_tokenizer(type->text()))
      type->fail(fmt::format(
          "the tokenizer of {} needs Python or rules of its own; choose a model whose tokenizer "
          "works from its files alone",
          printable(type->text())));
  }
}

bool is_type(const Json& tokenizer, const char* key, const char* type) {
  return tokenizer.contains(key) && tokenizer[key].is_object() && tokenizer[key].contains("type") &&
         tokenizer[key]["type"] == type;
}

/// Whether the class sets add_prefix_space in a byte-level pre-tokenizer, to false where no file
/// has it. With any value in a file, the others make their tokenizer anew from a SentencePiece
/// model.
bool sets_space(const TokenizerClass* its_class) {
  return its_class == nullptr ||
         (its_class->name != "LlamaTokenizer" && !its_class->name.ends_with("T5Tokenizer"));
}

constexpr const char* other_files =
    "with it transformers reads other files than tokenizer.json; save the tokenizer once, "
    "AutoTokenizer.from_pretrained(…).save_pretrained(…), and remove the key there";

}  // namespace

TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder) {
  TokenizerSettings settings;
  read_if_there(folder / "tokenizer_config.json", [&](const JsonPart& config) {
    settings.config_place = config.file();
    read_names(config, settings);
    read_flags(config, settings);
    if (const auto part = config.find("added_tokens_decoder")) read_decoder(*part, settings);
    settings.clean_up_spaces = config.boolean_or("clean_up_tokenization_spaces", false);
    settings.splits_special = config.boolean_or("split_special_tokens", false);
    const bool reads_json = std::filesystem::exists(folder / "tokenizer.json");
    if (reads_json && config.boolean_or("from_slow", false)) config["from_slow"].fail(other_files);
    if (const auto files = config.find("fast_tokenizer_files"); files && reads_json)
      for (const JsonPart& each : files->elements())
        if (each.text() != "tokenizer.json") each.fail(other_files);
    if (const auto part = config.find("tokenizer_class")) set_class(*part, settings);
    if (const auto part = config.find("model_input_names")) {
      settings.token_types = false;
      for (const JsonPart& each : part->elements())
        if (each.text() == "token_type_ids") settings.token_types = true;
    }
  });
  if (settings.its_class == nullptr)
    read_if_there(folder / "config.json",
                  [&](const JsonPart& config) { read_class_of_model(config, settings); });
  require_input(!settings.add_prefix_space || sets_space(settings.its_class),
                "{}: add_prefix_space: {}", settings.config_place, other_files);
  if (!settings.has_decoder) {
    read_if_there(folder / "special_tokens_map.json",
                  [&](const JsonPart& map) { read_names(map, settings); });
    read_if_there(folder / "added_tokens.json",
                  [&](const JsonPart& map) { read_added_file(map, settings); });
  }
  std::ranges::sort(settings.added, {}, &AddedToken::id);
  return settings;
}

void apply_settings(nlohmann::json& tokenizer, const TokenizerSettings& settings) {
  const bool has_settings = !settings.config_place.empty() || settings.its_class != nullptr;
  if (!has_settings || !tokenizer.is_object()) return;
  const Family family = settings.family();
  const bool passes_on =
      settings.its_class == nullptr || settings.its_class->name != "BlenderbotSmallTokenizer";
  const bool adds_space = passes_on && settings.add_prefix_space.value_or(false);
  if (sets_space(settings.its_class) && is_type(tokenizer, "pre_tokenizer", "ByteLevel"))
    tokenizer["pre_tokenizer"]["add_prefix_space"] = adds_space;
  if ((family == Family::bert || family == Family::mpnet) &&
      is_type(tokenizer, "normalizer", "BertNormalizer")) {
    Json& normalizer = tokenizer["normalizer"];
    normalizer["lowercase"] = settings.lower_case.value_or(true);
    normalizer["strip_accents"] = settings.strip_accents ? Json(*settings.strip_accents) : Json();
    if (family == Family::bert)
      normalizer["handle_chinese_chars"] = settings.tokenize_chinese_chars.value_or(true);
  }
  const bool trims = is_type(tokenizer, "post_processor", "RobertaProcessing") ||
                     is_type(tokenizer, "post_processor", "ByteLevel");
  if (family == Family::roberta && trims) {
    tokenizer["post_processor"]["add_prefix_space"] = adds_space;
    tokenizer["post_processor"]["trim_offsets"] = settings.trim_offsets.value_or(true);
  }
}

void apply_settings(TokenizerParts& parts, const TokenizerSettings& settings) {
  const Family family = settings.family();
  if (family != Family::gpt_neox && family != Family::llama) return;
  const bool adds_bos = settings.add_bos_token.value_or(family == Family::llama),
             adds_eos = settings.add_eos_token.value_or(false);
  using Kind = TemplatePart::Kind;
  const auto id_of = [&](Role::Index role) {
    const auto id = settings.find(role, parts.vocabulary);
    require_input(id.has_value(), "{}: '{}' stands around texts, but is no piece of the vocabulary",
                  settings.config_place, printable(settings.name_of(role)));
    return *id;
  };
  PostProcessor made;
  made.pair.clear();
  const auto put = [&](Kind text, std::int32_t type) {
    if (adds_bos) made.pair.push_back({Kind::special, type, {id_of(Role::bos)}});
    made.pair.push_back({text, type, {}});
    if (adds_eos) made.pair.push_back({Kind::special, type, {id_of(Role::eos)}});
  };
  put(Kind::first, 0);
  made.single = made.pair;
  put(Kind::second, 1);
  parts.post_processor = made;
  parts.has_own_template = true;
}

void add_tokens_of(const TokenizerSettings& settings, TokenizerParts& parts) {
  const std::vector<SpecialToken> specials = special_tokens_of(settings);
  std::set<std::string> described;  // tokens whose flags a file gives, with or without a name
  if (!settings.made_of_vocabulary && !settings.has_decoder)
    for (const AddedToken& each : parts.added.all()) described.insert(each.content);
  std::int32_t next = parts.model->vocabulary().count();
  for (const AddedToken& each : parts.added.all()) next = std::max(next, each.id + 1);
  const std::vector<AddedToken> stored = parts.added.all();
  for (AddedToken token : settings.added) {
    if (described.count(token.content) > 0) continue;
    place_added_token(token, settings.added_place, next, parts.vocabulary);
    token.special |=
        std::ranges::find(specials, token.content, &SpecialToken::content) != specials.end();
    parts.added.add(std::move(token));
  }
  if (settings.has_decoder)
    for (const AddedToken& each : settings.added) described.insert(each.content);

  const auto add = [&](const std::string& content, AddedToken token) {
    token.content = content;
    token.special = true;
    token.id = parts.vocabulary.find(content).value();
    // Hugging Face's library passes over a token that the file already holds with these flags, also
    // where added_tokens_decoder changes them.
    if (std::ranges::find(stored, token) == stored.end()) parts.added.add(std::move(token));
  };
  using Mask = TokenizerClass::Mask;
  const Mask mask = settings.its_class != nullptr ? settings.its_class->mask : Mask::bare;
  // When made from vocab.json, these classes treat their special tokens as ordinary added tokens,
  // whatever the files say.
  const Family family = settings.family();
  const bool resets =
      settings.made_of_vocabulary && (family == Family::roberta || family == Family::gpt2);
  const AddedToken plain{.normalized = resets};
  const auto loses_flags = [&](std::size_t role) {
    return settings.its_class != nullptr && (settings.its_class->flagless >> role & 1u) != 0;
  };
  const AddedTokenList known = parts.added;
  std::set<std::string_view> done;
  for (const auto& [content, role, name] : specials) {
    if (!parts.vocabulary.find(content)) {
      if (name == nullptr) continue;
      throw InputError(
          fmt::format("{}: '{}' is no piece of the vocabulary", name->place, printable(content)));
    }
    // Of the roles of a token the first one decides about its flags, of its entries without a role
    // the last one. Only an entry with flags changes those that a file gives with the token.
    const bool has_role = role < roles, has_flags = name != nullptr && name->flags;
    if (has_role ? !done.insert(content).second : done.count(content) > 0) continue;
    if (name != nullptr && described.count(content) > 0 && (has_role || !has_flags)) continue;
    const bool is_mask = role == Role::mask;
    if (has_flags)
      add(content, *name->flags);
    else if (is_mask && mask != Mask::bare)
      add(content, {.normalized = mask == Mask::with_space_in_normal_text, .lstrip = true});
    else if (!known.has(content) || (resets && !is_mask) || loses_flags(role))
      add(content, plain);
  }
}

void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings) {
  const Vocabulary& vocabulary = parts.vocabulary;
  const auto choose = [&](Role::Index role, std::optional<std::int32_t> known,
                          std::initializer_list<const char*> usual) {
    const auto id = settings.find(role, vocabulary);
    if (const auto& name = settings.names[role]) {
      require_input(id.has_value(), "{}: '{}' is no piece of the vocabulary", name->place,
                    printable(name->token));
      return *id;
    }
    if (known || id) return known ? *known : *id;
    for (const char* piece : usual)
      if (const auto other = vocabulary.find(piece)) return *other;
    return no_id;
  };
  parts.special = {
      .cls = choose(Role::cls, parts.post_processor.end(false), {"[CLS]", "<s>"}),
      .sep = choose(Role::sep, parts.post_processor.end(true), {"[SEP]", "</s>"}),
      .pad = choose(Role::pad, std::nullopt, {"[PAD]", "<pad>"}),
      .mask = choose(Role::mask, std::nullopt, {"[MASK]", "<mask>"}),
      .unk = choose(Role::unk, parts.model->unknown(), {"[UNK]", "<unk>", "<|endoftext|>"})};
  // As in transformers, those that the settings or the class name are special, whatever their own
  // flag says. So are those found above: the settings of the files to write name them.
  const std::vector<SpecialToken> specials = special_tokens_of(settings);
  const std::vector<AddedToken> stored = parts.added.all();
  for (AddedToken token : stored) {
    token.special |=
        parts.special.has(token.id) ||
        std::ranges::find(specials, token.content, &SpecialToken::content) != specials.end();
    parts.added.add(std::move(token));
  }
  parts.settings = settings;
  parts.token_types = settings.token_types.value_or(settings.its_class == nullptr ||
                                                    settings.its_class->token_types);
  if (!parts.post_processor.is_plain() || parts.special.cls == no_id || parts.special.sep == no_id)
    return;
  const PostProcessor made = PostProcessor::bert(parts.special.cls, parts.special.sep);
  parts.post_processor.single = made.single;
  parts.post_processor.pair = made.pair;
  parts.has_own_template = true;
}

}  // namespace nystrom
