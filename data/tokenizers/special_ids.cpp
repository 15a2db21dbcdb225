#include "data/tokenizers/special_ids.h"

#include "core/check.h"
#include "core/json.h"
#include "data/tokenizers/json_part.h"

namespace nystrom {
namespace {

using Name = std::optional<TokenizerSettings::Name>;

void read_names(const JsonPart& file, TokenizerSettings& settings) {
  const auto read = [&](const char* key, Name& name) {
    const auto part = file.find(key);
    if (!part || name) return;
    name = {part->value().is_object() ? (*part)["content"].text() : part->text(), part->where()};
  };
  read("cls_token", settings.cls);
  read("sep_token", settings.sep);
  read("pad_token", settings.pad);
  read("mask_token", settings.mask);
  read("unk_token", settings.unk);
}

void read_flag(const JsonPart& file, const char* key, std::optional<bool>& flag) {
  if (const auto part = file.find(key)) flag = part->boolean();
}

std::int32_t first_of(const Vocabulary& vocabulary, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = vocabulary.find(name)) return *id;
  return no_id;
}

}  // namespace

TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder) {
  TokenizerSettings settings;
  if (const auto file = folder / "tokenizer_config.json"; std::filesystem::exists(file)) {
    const auto json = read_json_file(file);
    const JsonPart config(json, printable_path(file));
    read_names(config, settings);
    read_flag(config, "do_lower_case", settings.lower_case);
    read_flag(config, "strip_accents", settings.strip_accents);
    read_flag(config, "tokenize_chinese_chars", settings.tokenize_chinese_chars);
    read_flag(config, "add_prefix_space", settings.add_prefix_space);
    settings.clean_up_spaces = config.boolean_or("clean_up_tokenization_spaces", false);
    settings.tokenizer_class = config.text_or("tokenizer_class", "");
  }
  if (const auto file = folder / "special_tokens_map.json"; std::filesystem::exists(file)) {
    const auto json = read_json_file(file);
    read_names(JsonPart(json, printable_path(file)), settings);
  }
  return settings;
}

void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings) {
  const Vocabulary& vocabulary = parts.vocabulary;
  const auto choose = [&](const Name& name, std::optional<std::int32_t> known, std::initializer_list<const char*> usual) {
    if (!name) return known ? *known : first_of(vocabulary, usual);
    const auto id = vocabulary.find(name->token);
    require_input(id.has_value(), "{}: '{}' is no piece of the vocabulary", name->file, printable(name->token));
    return *id;
  };
  parts.special = {.cls = choose(settings.cls, parts.post_processor.cls, {"[CLS]", "<s>"}),
                   .sep = choose(settings.sep, parts.post_processor.sep, {"[SEP]", "</s>"}),
                   .pad = choose(settings.pad, std::nullopt, {"[PAD]", "<pad>"}),
                   .mask = choose(settings.mask, std::nullopt, {"[MASK]", "<mask>"}),
                   .unk = choose(settings.unk, parts.model->unknown(), {"[UNK]", "<unk>", "<|endoftext|>"})};
}

}  // namespace nystrom
