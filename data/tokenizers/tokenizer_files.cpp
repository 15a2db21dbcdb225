#include "data/tokenizers/tokenizer_files.h"

#include <algorithm>

#include "core/check.h"
#include "core/json.h"
#include "data/tokenizers/json_part.h"

namespace nystrom {
namespace {

/// Calls use(line, number from 1 on) for each line; a line feed at the very end begins none.
template <class Use>
void for_each_line(std::string_view text, const std::string& source, const Use& use) {
  require_input(is_valid_utf8(text), "{}: not valid UTF-8 at byte {}", source, valid_utf8_prefix(text));
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(line, ++number);
    begin = end + 1;
  }
}

/// Makes pieces added tokens, found in text as they are.
void add_special(TokenizerParts& parts, std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    const auto id = parts.vocabulary.find(name);
    const bool known = std::any_of(parts.added.begin(), parts.added.end(), [&](const AddedToken& token) { return token.content == name; });
    if (!id || known) continue;
    AddedToken token{.content = name, .id = *id, .special = true};
    token.lstrip = name == "<mask>";  // as RoBERTa's
    parts.added.push_back(token);
  }
}

std::string name_or(const std::optional<TokenizerSettings::Name>& name, const char* otherwise) { return name ? name->token : otherwise; }

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& source) {
  const nlohmann::json json = parse_json(text, source);
  const JsonPart file(json, source);
  TokenizerParts parts;
  if (const auto part = file.find("normalizer")) parts.normalizer = read_normalizer(*part);
  if (const auto part = file.find("pre_tokenizer")) parts.pre_tokenizer = read_pre_tokenizer(*part);
  parts.model = read_word_model(file["model"]);
  parts.vocabulary = parts.model->vocabulary();
  if (const auto part = file.find("added_tokens")) parts.added = read_added_tokens(*part, parts.vocabulary);
  if (const auto gap = parts.vocabulary.first_gap()) {
    file.fail(fmt::format("no piece and no added token has id {}; expected all ids from 0 to {}", *gap, parts.vocabulary.size() - 1));
  }
  if (const auto part = file.find("post_processor")) parts.post_processor = read_post_processor(*part, parts.vocabulary);
  if (const auto part = file.find("decoder")) parts.decoder = read_decoder(*part);
  return parts;
}

TokenizerParts parse_bert_vocabulary(std::string_view text, const std::string& source, const TokenizerSettings& settings) {
  Vocabulary vocabulary;
  for_each_line(text, source, [&](std::string_view line, std::size_t number) {
    require_input(!line.empty(), "{}:{}: an empty line; expected a piece", source, number);
    require_input(number <= max_pieces, "{}: more than {} pieces", source, max_pieces);
    const bool is_new = vocabulary.add(std::string(line), vocabulary.size());
    require_input(is_new, "{}:{}: '{}' stands in line {} too", source, number, printable(line), vocabulary.find(line).value_or(0) + 1);
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
  parts.model = wordpiece_model(std::move(vocabulary), options, source);
  add_special(parts, {options.unknown, sep, name_or(settings.pad, "[PAD]"), cls, name_or(settings.mask, "[MASK]")});
  return parts;
}

TokenizerParts parse_gpt2_vocabulary(std::string_view vocabulary, const std::string& vocabulary_source, std::string_view merges,
                                     const std::string& merges_source, const TokenizerSettings& settings) {
  TokenizerParts parts;
  const nlohmann::json json = parse_json(vocabulary, vocabulary_source);
  parts.vocabulary = Vocabulary::read(JsonPart(json, vocabulary_source));
  const auto gap = parts.vocabulary.first_gap();
  require_input(!gap, "{}: no piece has id {}; expected all ids from 0 to {}", vocabulary_source, gap.value_or(0),
                parts.vocabulary.size() - 1);
  Merges list;
  for_each_line(merges, merges_source, [&](std::string_view line, std::size_t number) {
    if (line.starts_with("#version") || line.empty()) return;
    const std::size_t space = line.find(' ');
    require_input(space != line.npos && line.find(' ', space + 1) == line.npos, "{}:{}: '{}' is no pair of pieces", merges_source, number,
                  printable(line));
    list.emplace_back(line.substr(0, space), line.substr(space + 1));
  });
  parts.model = bpe_model(parts.vocabulary, list, {}, merges_source);
  const bool adds_space = settings.add_prefix_space.value_or(false);
  parts.pre_tokenizer = byte_level_pre_tokenizer(adds_space);
  parts.decoder = byte_level_decoder();
  const auto find = [&](const char* name) { return parts.vocabulary.find(name); };
  const auto cls = find("<s>"), sep = find("</s>");
  const bool robertas = cls && sep && find("<pad>") && find("<mask>");
  parts.hugging_face_class = robertas ? "RobertaTokenizer" : "GPT2Tokenizer";
  if (robertas) parts.post_processor = PostProcessor::roberta(*cls, *sep, adds_space);
  const auto name_of = [&](const std::optional<TokenizerSettings::Name>& name, const char* usual) {
    return name_or(name, robertas ? usual : "<|endoftext|>");
  };
  add_special(parts, {name_of(settings.cls, "<s>"), name_of(settings.pad, "<pad>"), name_of(settings.sep, "</s>"),
                      name_of(settings.unk, "<unk>"), name_of(settings.mask, "<mask>")});
  return parts;
}

}  // namespace nystrom
