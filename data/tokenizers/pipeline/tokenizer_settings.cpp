#include "data/tokenizers/pipeline/tokenizer_settings.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/json_part.h"
#include "data/tokenizers/pipeline/pipeline_tokenizer.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Name = TokenizerSettings::Name;

constexpr std::size_t max_settings_bytes = std::size_t{16} << 20;

// ---- Reading ------------------------------------------------------------------------------------

/// Reads a string, or an object with the token's flags.
Name read_name(const JsonPart& part) {
  Name name{"", part.where(), std::nullopt};
  if (part.value().is_object()) {
    name.flags = read_added_token(part);
    name.flags->special = true;
    name.token = name.flags->content;
  } else {
    name.token = part.text();
  }
  return name;
}

/// Reads the names in the file. Earlier names stay where the file has none.
void read_names(const JsonPart& file, TokenizerSettings& settings) {
  const std::pair<const char*, std::optional<Name>*> roles[] = {
      {"bos_token", &settings.bos},  {"eos_token", &settings.eos}, {"unk_token", &settings.unk},
      {"sep_token", &settings.sep},  {"pad_token", &settings.pad}, {"cls_token", &settings.cls},
      {"mask_token", &settings.mask}};
  for (const auto& [key, name] : roles)
    if (const auto part = file.find(key)) *name = read_name(*part);
  const auto list = file.find("additional_special_tokens");
  if (!list || !list->value().is_array()) return;
  for (const JsonPart& each : list->elements()) settings.additional.push_back(read_name(each));
}

std::set<std::string_view> contents_of(const std::vector<const Name*>& names) {
  std::set<std::string_view> contents;
  for (const Name* name : names) contents.insert(name->token);
  return contents;
}

std::vector<const Name*> names_of(const TokenizerSettings& settings) {
  std::vector<const Name*> names;
  for (const auto* each : {&settings.bos, &settings.eos, &settings.unk, &settings.sep,
                           &settings.pad, &settings.cls, &settings.mask})
    if (*each) names.push_back(&**each);
  for (const Name& each : settings.additional) names.push_back(&each);
  return names;
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
  if (!part.value().is_object()) part.fail("expected an object from ids to tokens");
  settings.has_decoder = true;
  settings.added_place = part.where();
  for (const auto& [key, value] : part.value().items()) {
    AddedToken token = read_added_token(part[key.c_str()]);
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0)
      part.fail(fmt::format("'{}' is no id", printable(key)));
    settings.added.push_back(std::move(token));
  }
}

/// Reads the older format {"token": id}.
void read_added_file(const std::filesystem::path& file, TokenizerSettings& settings) {
  const auto json = read_json_file(file, max_settings_bytes);
  const JsonPart map(json, printable_path(file));
  if (!json.is_object()) map.fail("expected an object from tokens to ids");
  settings.added_place = map.file();
  const auto named = contents_of(names_of(settings));
  for (const auto& [content, value] : json.items()) {
    AddedToken token{.content = content,
                     .id = static_cast<std::int32_t>(map[content.c_str()].integer(0, max_pieces))};
    if (content.empty()) map.fail("a token is empty");
    token.special = named.count(content) > 0;
    token.normalized = !token.special;
    settings.added.push_back(std::move(token));
  }
}

// ---- Classes of transformers --------------------------------------------------------------------

/// Groups of classes whose constructors change a tokenizer.json in the same way.
enum class Family { plain, bert, roberta, gpt2, gpt_neox, llama };

Family family_of(const std::string& name) {
  static const std::map<std::string, Family> families = {
      {"BertTokenizer", Family::bert},        {"ConvBertTokenizer", Family::bert},
      {"DistilBertTokenizer", Family::bert},  {"ElectraTokenizer", Family::bert},
      {"FunnelTokenizer", Family::bert},      {"LayoutLMTokenizer", Family::bert},
      {"LxmertTokenizer", Family::bert},      {"MobileBertTokenizer", Family::bert},
      {"SqueezeBertTokenizer", Family::bert}, {"RobertaTokenizer", Family::roberta},
      {"BartTokenizer", Family::roberta},     {"BlenderbotTokenizer", Family::roberta},
      {"LEDTokenizer", Family::roberta},      {"LongformerTokenizer", Family::roberta},
      {"MvpTokenizer", Family::roberta},      {"GPT2Tokenizer", Family::gpt2},
      {"GPTNeoXTokenizer", Family::gpt_neox}, {"LlamaTokenizer", Family::llama}};
  const auto found = families.find(name);
  return found == families.end() ? Family::plain : found->second;
}

/// The default special tokens of a family. They apply when the settings name none.
std::vector<const char*> usual_names(Family family) {
  switch (family) {
    case Family::bert: return {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    case Family::roberta: return {"<s>", "</s>", "<unk>", "<pad>", "<mask>"};
    case Family::gpt2:
    case Family::gpt_neox: return {"<|endoftext|>"};
    case Family::llama: return {"<s>", "</s>", "<unk>"};
    case Family::plain: break;
  }
  return {};
}

/// The mask token of classes whose mask includes the space before it by default. Most of these
/// classes search it in normalized text.
std::optional<AddedToken> mask_of_class(const std::string& name) {
  static const std::map<std::string, bool> normalized = {
      {"AlbertTokenizer", false},    {"BartTokenizer", true},        {"BarthezTokenizer", true},
      {"BigBirdTokenizer", true},    {"BlenderbotTokenizer", false}, {"CamembertTokenizer", false},
      {"CpmTokenizer", true},        {"FNetTokenizer", true},        {"LEDTokenizer", true},
      {"LayoutXLMTokenizer", true},  {"LongformerTokenizer", false}, {"MBart50Tokenizer", true},
      {"MBartTokenizer", true},      {"MPNetTokenizer", true},       {"MarkupLMTokenizer", true},
      {"MvpTokenizer", true},        {"RemBertTokenizer", true},     {"RobertaTokenizer", false},
      {"XLMRobertaTokenizer", true}, {"XLNetTokenizer", true}};
  const auto found = normalized.find(name);
  if (found == normalized.end()) return std::nullopt;
  return AddedToken{.content = "", .normalized = found->second, .lstrip = true};
}

bool is_type(const Json& tokenizer, const char* key, const char* type) {
  return tokenizer.contains(key) && tokenizer[key].is_object() && tokenizer[key].contains("type") &&
         tokenizer[key]["type"] == type;
}

/// Sets templates with bos before and eos after a text, depending on the flags. In a pair both
/// texts get them.
void put_bos_and_eos(const TokenizerSettings& settings, bool adds_bos, bool adds_eos,
                     const char* bos, const char* eos, TokenizerParts& parts) {
  using Kind = TemplatePart::Kind;
  const auto id_of = [&](const std::optional<Name>& name, const char* usual) {
    const std::string token = name ? name->token : usual;
    const auto id = parts.vocabulary.find(token);
    require_input(id.has_value(), "{}: '{}' stands around texts, but is no piece of the vocabulary",
                  settings.config_place, printable(token));
    return *id;
  };
  PostProcessor made;
  const auto put = [&](Kind text, std::int32_t type) {
    if (adds_bos) made.pair.push_back({Kind::special, type, {id_of(settings.bos, bos)}});
    made.pair.push_back({text, type, {}});
    if (adds_eos) made.pair.push_back({Kind::special, type, {id_of(settings.eos, eos)}});
  };
  put(Kind::first, 0);
  made.single = made.pair;
  put(Kind::second, 1);
  if (adds_bos) made.cls = id_of(settings.bos, bos);
  if (adds_eos) made.sep = id_of(settings.eos, eos);
  parts.post_processor = made;
}

}  // namespace

TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder) {
  TokenizerSettings settings;
  if (const auto file = folder / "tokenizer_config.json"; std::filesystem::exists(file)) {
    const auto json = read_json_file(file, max_settings_bytes);
    const JsonPart config(json, printable_path(file));
    settings.config_place = config.file();
    read_names(config, settings);
    read_flags(config, settings);
    if (const auto part = config.find("added_tokens_decoder")) read_decoder(*part, settings);
    settings.clean_up_spaces = config.boolean_or("clean_up_tokenization_spaces", false);
    settings.tokenizer_class = config.text_or("tokenizer_class", "");
    if (settings.tokenizer_class.ends_with("Fast"))
      settings.tokenizer_class.resize(settings.tokenizer_class.size() - 4);
  }
  if (!settings.has_decoder) {
    if (const auto file = folder / "special_tokens_map.json"; std::filesystem::exists(file)) {
      const auto json = read_json_file(file, max_settings_bytes);
      read_names(JsonPart(json, printable_path(file)), settings);
    }
    if (const auto file = folder / "added_tokens.json"; std::filesystem::exists(file))
      read_added_file(file, settings);
  }
  std::sort(settings.added.begin(), settings.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return settings;
}

void apply_settings(nlohmann::json& tokenizer, const TokenizerSettings& settings) {
  if (settings.config_place.empty() || !tokenizer.is_object()) return;
  const Family family = family_of(settings.tokenizer_class);
  /// Llama's class has no default.
  const bool adds_space = settings.add_prefix_space.value_or(false);
  const bool says_space = settings.add_prefix_space || family != Family::llama;
  if (says_space && is_type(tokenizer, "pre_tokenizer", "ByteLevel"))
    tokenizer["pre_tokenizer"]["add_prefix_space"] = adds_space;
  if (family == Family::bert && is_type(tokenizer, "normalizer", "BertNormalizer")) {
    Json& normalizer = tokenizer["normalizer"];
    normalizer["lowercase"] = settings.lower_case.value_or(true);
    normalizer["strip_accents"] = settings.strip_accents ? Json(*settings.strip_accents) : Json();
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
  if (settings.config_place.empty()) return;
  const Family family = family_of(settings.tokenizer_class);
  const bool adds_eos = settings.add_eos_token.value_or(false);
  if (family == Family::gpt_neox)
    put_bos_and_eos(settings, settings.add_bos_token.value_or(false), adds_eos, "<|endoftext|>",
                    "<|endoftext|>", parts);
  if (family == Family::llama)
    put_bos_and_eos(settings, settings.add_bos_token.value_or(true), adds_eos, "<s>", "</s>",
                    parts);
}

bool knows_special_tokens(const TokenizerSettings& settings) {
  return family_of(settings.tokenizer_class) != Family::plain;
}

void add_tokens_of(const TokenizerSettings& settings, TokenizerParts& parts,
                   bool has_tokenizer_json) {
  const auto names = names_of(settings);
  const Family family = family_of(settings.tokenizer_class);
  const std::vector<const char*> usual = usual_names(family);
  const auto named = contents_of(names);
  std::set<std::string> described;  // tokens whose flags a file gives, with or without a name
  if (has_tokenizer_json && !settings.has_decoder)
    for (const AddedToken& each : parts.added.all()) described.insert(each.content);
  std::int32_t next = parts.model->vocabulary().count();
  for (const AddedToken& each : parts.added.all()) next = std::max(next, each.id + 1);
  for (AddedToken token : settings.added) {
    if (described.count(token.content) > 0) continue;
    place_added_token(token, settings.added_place, next, parts.vocabulary);
    token.special |= named.count(token.content) > 0 ||
                     std::find(usual.begin(), usual.end(), token.content) != usual.end();
    parts.added.add(std::move(token));
  }
  if (settings.has_decoder)
    for (const AddedToken& each : settings.added) described.insert(each.content);

  const auto add = [&](const std::string& content, AddedToken token) {
    token.content = content;
    token.special = true;
    token.id = parts.vocabulary.find(content).value();
    parts.added.add(std::move(token));
  };
  const std::optional<AddedToken> class_mask = mask_of_class(settings.tokenizer_class);
  // When made from vocab.json, these classes treat their special tokens as ordinary added tokens,
  // whatever the files say.
  const bool resets = !has_tokenizer_json && (family == Family::roberta || family == Family::gpt2);
  const AddedToken plain{.content = "", .normalized = resets};
  for (const Name* name : names) {
    require_input(parts.vocabulary.find(name->token).has_value(),
                  "{}: '{}' is no piece of the vocabulary", name->place, printable(name->token));
    if (described.count(name->token) > 0) continue;
    const bool is_mask = settings.mask && name == &*settings.mask;
    if (name->flags)
      add(name->token, *name->flags);
    else if (is_mask && class_mask)
      add(name->token, *class_mask);
    else if (!parts.added.has(name->token) || (resets && !is_mask))
      add(name->token, plain);
  }
  for (const std::string name : usual)
    if (parts.vocabulary.find(name) && named.count(name) == 0 && (!parts.added.has(name) || resets))
      add(name, plain);
  if (class_mask && !settings.mask)
    for (const std::string name : {"<mask>", "[MASK]"})
      if (parts.added.has(name)) add(name, *class_mask);
}

}  // namespace nystrom
