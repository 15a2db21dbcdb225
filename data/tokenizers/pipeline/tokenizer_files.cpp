#include "data/tokenizers/pipeline/tokenizer_files.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/json_part.h"
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
    use(line, ++number);
    begin = end + 1;
  }
}

Merges read_merges_file(std::string_view text, const std::string& source) {
  Merges merges;
  for_each_line(text, source, [&](std::string_view line, std::size_t number) {
    if (line.starts_with("#version") || line.empty()) return;
    const std::size_t space = line.find(' ');
    require_input(space != line.npos && line.find(' ', space + 1) == line.npos,
                  "{}:{}: '{}' is no pair of pieces", source, number, printable(line));
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  });
  return merges;
}

/// Turns pieces into special added tokens that are found in the original text. Does nothing when
/// the settings name a class with its own special tokens. The token `lstripped` includes the space
/// before it.
void add_special(TokenizerParts& parts, const TokenizerSettings& settings,
                 std::initializer_list<std::string> names, std::string_view lstripped = {}) {
  if (knows_special_tokens(settings)) return;
  for (const std::string& name : names)
    if (const auto id = parts.vocabulary.find(name))
      parts.added.add({.content = name, .id = *id, .special = true, .lstrip = name == lstripped});
}

std::string name_or(const std::optional<TokenizerSettings::Name>& name, const char* otherwise) {
  return name ? name->token : otherwise;
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& source,
                                    const TokenizerSettings& settings) {
  const nlohmann::json original = parse_json(text, source, read_rounded_number);
  nlohmann::json json = original;
  apply_settings(json, settings);
  const JsonPart file(json, source);
  TokenizerParts parts;
  const auto own_normalizer = JsonPart(original, source).find("normalizer");
  if (own_normalizer && own_normalizer->value() != json["normalizer"])
    parts.added_normalizer = read_normalizer(*own_normalizer);
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
  return parts;
}

TokenizerParts parse_bert_vocabulary(std::string_view text, const std::string& source,
                                     const TokenizerSettings& settings) {
  Vocabulary vocabulary;
  for_each_line(text, source, [&](std::string_view line, std::size_t number) {
    require_input(!line.empty(), "{}:{}: an empty line; expected a piece", source, number);
    require_input(number <= max_pieces, "{}: more than {} pieces", source, max_pieces);
    const bool is_new = vocabulary.add(std::string(line), vocabulary.size());
    require_input(is_new, "{}:{}: '{}' stands in line {} too", source, number, printable(line),
                  vocabulary.find(line).value_or(0) + 1);
  });
  require_input(vocabulary.size() > 0, "{}: the vocabulary is empty", source);
  const std::string cls = name_or(settings.cls, "[CLS]"), sep = name_or(settings.sep, "[SEP]");
  const auto id_of = [&](const std::string& name) {
    const auto id = vocabulary.find(name);
    require_input(id.has_value(), "{}: the vocabulary has no piece '{}'", source, printable(name));
    return *id;
  };
  TokenizerParts parts;
  parts.post_processor = PostProcessor::bert(id_of(cls), id_of(sep));
  WordPieceOptions options;
  options.unknown = name_or(settings.unk, "[UNK]");
  BertNormalizerOptions normalizer;
  normalizer.lower_case = settings.lower_case.value_or(true);
  normalizer.strip_accents = settings.strip_accents.value_or(normalizer.lower_case);
  normalizer.handle_chinese_chars = settings.tokenize_chinese_chars.value_or(true);
  parts.hugging_face_class = "BertTokenizer";
  parts.normalizer = bert_normalizer(normalizer);
  parts.pre_tokenizer = bert_pre_tokenizer();
  parts.decoder = wordpiece_decoder("##", true);
  parts.vocabulary = vocabulary;
  parts.model = wordpiece_model(std::move(vocabulary), options);
  add_special(parts, settings,
              {options.unknown, sep, name_or(settings.pad, "[PAD]"), cls,
               name_or(settings.mask, "[MASK]")});
  return parts;
}

TokenizerParts parse_gpt2_vocabulary(std::string_view vocabulary,
                                     const std::string& vocabulary_source, std::string_view merges,
                                     const std::string& merges_source,
                                     const TokenizerSettings& settings) {
  TokenizerParts parts;
  const nlohmann::json json = parse_json(vocabulary, vocabulary_source);
  parts.vocabulary = Vocabulary::read(JsonPart(json, vocabulary_source));
  const Merges list = read_merges_file(merges, merges_source);
  parts.model = bpe_model(parts.vocabulary, list, {}, merges_source);
  const bool adds_space = settings.add_prefix_space.value_or(false);
  parts.pre_tokenizer = byte_level_pre_tokenizer(adds_space);
  parts.decoder = byte_level_decoder();
  const auto find = [&](const char* name) { return parts.vocabulary.find(name); };
  const auto cls = find("<s>"), sep = find("</s>");
  const bool robertas =
      cls && sep && find("<pad>") && find("<mask>") && settings.tokenizer_class != "GPT2Tokenizer";
  parts.hugging_face_class = robertas ? "RobertaTokenizer" : "GPT2Tokenizer";
  parts.adds_prefix_space = adds_space;
  if (robertas) {
    parts.post_processor = PostProcessor::roberta(*cls, *sep, adds_space);
    parts.post_processor.trims_offsets = settings.trim_offsets.value_or(true);
  }
  const auto name_of = [&](const std::optional<TokenizerSettings::Name>& name, const char* usual) {
    return name_or(name, robertas ? usual : "<|endoftext|>");
  };
  add_special(
      parts, settings,
      {name_of(settings.cls, "<s>"), name_of(settings.pad, "<pad>"), name_of(settings.sep, "</s>"),
       name_of(settings.unk, "<unk>"), name_of(settings.mask, "<mask>")},
      robertas ? "<mask>" : "");
  return parts;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson template_json(const TokenizerParts& parts) {
  const std::string &cls = parts.vocabulary.piece(parts.special.cls),
                    &sep = parts.vocabulary.piece(parts.special.sep);
  const auto token = [](const std::string& name, int type) {
    return OrderedJson{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return OrderedJson{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  OrderedJson single = OrderedJson::array({token(cls, 0), text("A", 0), token(sep, 0)}),
              pair = single, tokens = OrderedJson::object();
  pair.push_back(text("B", 1));
  pair.push_back(token(sep, 1));
  for (const std::int32_t id : {parts.special.cls, parts.special.sep}) {
    const std::string& name = parts.vocabulary.piece(id);
    tokens[name] = {
        {"id", name}, {"ids", OrderedJson::array({id})}, {"tokens", OrderedJson::array({name})}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

/// A tokenizer.json equivalent to vocab.json and merges.txt.
OrderedJson json_of_gpt2(const TokenizerParts& parts, const std::string& vocabulary,
                         const std::string& merges) {
  OrderedJson pairs = OrderedJson::array(), added = OrderedJson::array();
  for (const auto& [left, right] : read_merges_file(merges, "merges.txt"))
    pairs.push_back({left, right});
  for (const AddedToken& token : parts.added.all()) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  const OrderedJson level = {{"type", "ByteLevel"},
                             {"add_prefix_space", parts.adds_prefix_space},
                             {"trim_offsets", true},
                             {"use_regex", true}};
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", ""},
                             {"end_of_word_suffix", ""},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", OrderedJson::parse(vocabulary)},
                             {"merges", pairs}};
  return {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
          {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", level},
          {"post_processor", nullptr}, {"decoder", level},      {"model", model}};
}

}  // namespace

std::string tokenizer_json_with_template(const TokenizerParts& parts) {
  const auto content = [&](const char* name) -> const std::string* {
    const auto found = std::find_if(parts.files.begin(), parts.files.end(),
                                    [&](const TokenizerFile& file) { return file.name == name; });
    return found == parts.files.end() ? nullptr : &found->content;
  };
  const std::string* own = content("tokenizer.json");
  require(own != nullptr || (content("vocab.json") != nullptr && content("merges.txt") != nullptr),
          "a tokenizer without its files");
  OrderedJson json = own != nullptr
                         ? OrderedJson::parse(*own)
                         : json_of_gpt2(parts, *content("vocab.json"), *content("merges.txt"));
  OrderedJson& post = json["post_processor"];
  if (post.is_null()) {
    post = template_json(parts);
  } else {
    OrderedJson steps =
        post["type"] == "Sequence" ? post["processors"] : OrderedJson::array({post});
    steps.push_back(template_json(parts));
    post = {{"type", "Sequence"}, {"processors", steps}};
  }
  return json.dump() + "\n";
}

}  // namespace nystrom
