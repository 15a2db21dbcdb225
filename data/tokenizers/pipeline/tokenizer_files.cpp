#include "data/tokenizers/pipeline/tokenizer_files.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/json.h"
#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/part_json.h"
#include "data/tokenizers/pipeline/rounded_number.h"

namespace nystrom {
namespace {

/// Calls use(line, number) for each line, counted from 1. A final line feed does not start another
/// line.
template <class Use>
void for_each_line(std::string_view text, const std::string& source, const Use& use) {
  require_input(is_valid_utf8(text), "{}: not valid UTF-8 at byte {}", source,
                valid_utf8_prefix(text));
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    require_input(line.find('\r') == line.npos,
                  "{}:{}: a carriage return within a line, where Python begins another; remove it",
                  source, number + 1);
    use(line, ++number);
    begin = end + 1;
  }
}

/// transformers 4.57 leaves out the first line and what follows the last line feed, whatever they
/// are.
Merges read_merges_file(std::string_view text, const std::string& source) {
  require_input(text.starts_with("#version"),
                "{}:1: expected '#version: 0.2' before the merges; transformers leaves out the "
                "first line, so put that there",
                source);
  require_input(text.ends_with('\n'),
                "{}: the last line has no line feed, and transformers leaves it out; add one",
                source);
  Merges merges;
  std::unordered_map<std::string_view, std::size_t> lines;
  for_each_line(text, source, [&](std::string_view line, std::size_t number) {
    if (number == 1) return;
    const auto [first, added] = lines.try_emplace(line, number);
    require_input(added,
                  "{}:{}: '{}' is in line {} too; transformers 4 takes the first one's rank, and 5 "
                  "the last one's; remove one",
                  source, number, printable(line), first->second);
    const std::size_t space = line.find(' ');
    require_input(space != line.npos && line.find(' ', space + 1) == line.npos,
                  "{}:{}: '{}' is no pair of pieces", source, number, printable(line));
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  });
  return merges;
}

using Json = nlohmann::json;

/// The special token of a role and its id, as post-processors have them.
Json named_id(const Json& vocabulary, Role::Index role, const TokenizerSettings& settings,
              const std::string& source) {
  const std::string name = settings.name_of(role);
  require_input(vocabulary.contains(name), "{}: the vocabulary has no piece '{}'", source,
                printable(name));
  return Json::array({name, vocabulary[name]});
}

/// The post-processor of RoBERTa's classes, or of GPT-2's with add_bos_token.
Json template_of_gpt2(const Json& json, const Vocabulary& vocabulary, const std::string& source,
                      const TokenizerSettings& settings) {
  const auto end = [&](Role::Index role) { return named_id(json, role, settings, source); };
  if (settings.family() == Family::roberta)
    return {{"type", "RobertaProcessing"},
            {"cls", end(Role::cls)},
            {"sep", end(Role::sep)},
            {"trim_offsets", settings.trim_offsets.value_or(true)},
            {"add_prefix_space", settings.add_prefix_space.value_or(false)}};
  if (!settings.add_bos_token.value_or(false)) return nullptr;
  PostProcessor bos;
  const TemplatePart token{TemplatePart::Kind::special, 0, {end(Role::bos)[1].get<std::int32_t>()}};
  bos.single.insert(bos.single.begin(), token);
  bos.pair.insert(bos.pair.begin(), token);
  return post_processor_json(bos, vocabulary);
}

/// transformers reads the added tokens before the settings change the normalizer to that of the
/// parts. Throws an InputError for a token with another form by the file's own normalizer.
void require_same_forms(const TokenizerParts& parts, const TextNormalizer& own,
                        const std::string& source) {
  const auto form = [](const TextNormalizer& normalizer, const std::string& token) {
    AlignedText text(token);
    normalizer(text);
    return text.text();
  };
  for (const AddedToken& token : parts.added.all()) {
    if (!token.normalized) continue;
    const std::string before = form(own, token.content),
                      after = form(parts.normalizer, token.content);
    require_input(before == after,
                  "{}: the added token '{}' is '{}' by the normalizer and '{}' by that of the "
                  "settings beside it, and no tokenizer.json can hold both; write do_lower_case "
                  "and strip_accents into the normalizer",
                  source, printable(token.content), printable(before), printable(after));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of_json(std::string_view text, const std::string& source,
                                             const TokenizerSettings& settings) {
  nlohmann::json json = parse_json(text, source, [](std::string_view number) {
    return nlohmann::json(read_rounded_number(number));
  });
  nlohmann::json original = nlohmann::json::object();  // what the settings may change
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor"})
    if (json.contains(key)) original[key] = json[key];
  apply_settings(json, settings);
  const JsonPart file(json, source);
  if (const auto version = file.find("version"); version && version->value() != "1.0")
    version->fail(fmt::format("got {}, expected 1.0, as Hugging Face's tokenizers do",
                              printable(version->value().dump(), 40)));
  TokenizerParts parts;
  parts.json = text;
  for (const auto& [key, before] : original.items())
    if (json[key] != before) parts.changes.push_back({key, json[key].dump()});
  if (const auto part = file.find("normalizer")) parts.normalizer = read_normalizer(*part);
  if (const auto part = file.find("pre_tokenizer")) {
    parts.pre_tokenizer = read_pre_tokenizer(*part);
    parts.adds_prefix_space =
        part->text_or("type", "") == "ByteLevel" && part->boolean_or("add_prefix_space", true);
  }
  parts.model = read_word_model(file["model"]);
  parts.vocabulary = parts.model->vocabulary();
  if (const auto part = file.find("added_tokens"))
    parts.added = read_added_tokens(*part, parts.vocabulary);
  if (const auto part = file.find("post_processor"))
    parts.post_processor = read_post_processor(*part, parts.vocabulary);
  if (const auto part = file.find("decoder")) parts.decoder = read_decoder(*part);
  apply_settings(parts, settings);
  add_tokens_of(settings, parts);
  find_special_ids(parts, settings);
  if (const auto own = JsonPart(original, source).find("normalizer");
      own && own->value() != json["normalizer"])
    require_same_forms(parts, read_normalizer(*own), source);
  return make_tokenizer(std::move(parts));
}

std::string bert_tokenizer_json(std::string_view text, const std::string& source,
                                const TokenizerSettings& settings) {
  Json vocabulary = Json::object();
  for_each_line(text, source, [&](std::string_view line, std::size_t number) {
    require_input(!line.empty(), "{}:{}: an empty line; expected a piece", source, number);
    require_input(number <= max_pieces, "{}: more than {} pieces", source, max_pieces);
    const auto [place, is_new] = vocabulary.emplace(std::string(line), number - 1);
    require_input(is_new, "{}:{}: '{}' stands in line {} too", source, number, printable(line),
                  place->get<std::size_t>() + 1);
  });
  require_input(!vocabulary.empty(), "{}: the vocabulary is empty", source);
  const auto end = [&](Role::Index role) { return named_id(vocabulary, role, settings, source); };
  const Json normalizer = {
      {"type", "BertNormalizer"},
      {"clean_text", true},
      {"handle_chinese_chars", settings.tokenize_chinese_chars.value_or(true)},
      {"strip_accents", settings.strip_accents ? Json(*settings.strip_accents) : Json()},
      {"lowercase", settings.lower_case.value_or(true)}};
  return tokenizer_json_text(
      {{"normalizer", normalizer},
       {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
       {"post_processor",
        {{"type", "BertProcessing"}, {"cls", end(Role::cls)}, {"sep", end(Role::sep)}}},
       {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
       {"model", wordpiece_json(vocabulary, settings.name_of(Role::unk))}});
}

std::string gpt2_tokenizer_json(const nlohmann::json& json, const std::string& vocabulary_source,
                                std::string_view merges, const std::string& merges_source,
                                const TokenizerSettings& settings) {
  const Vocabulary vocabulary = Vocabulary::read(JsonPart(json, vocabulary_source));
  Json pairs = Json::array();
  for (const auto& [left, right] : read_merges_file(merges, merges_source))
    pairs.push_back({left, right});
  const Json level = byte_level_json(settings.add_prefix_space.value_or(false));
  Json model = bpe_json(json, pairs);
  model["continuing_subword_prefix"] = model["end_of_word_suffix"] = "";
  return tokenizer_json_text(
      {{"pre_tokenizer", level},
       {"post_processor", template_of_gpt2(json, vocabulary, vocabulary_source, settings)},
       {"decoder", level},
       {"model", model}});
}

}  // namespace nystrom
