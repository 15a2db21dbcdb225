#include "data/tokenizers/builtin_tokenizer.h"

#include "core/check.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/part_json.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

constexpr const char* padding = "[PAD]";
constexpr const char* unknown = "[UNK]";
constexpr const char* mask = "[MASK]";
constexpr int bytes = 256;
constexpr std::int32_t first_byte_id = 1;

Json added_tokens(std::initializer_list<std::pair<const char*, std::int32_t>> tokens) {
  Json added = Json::array();
  for (const auto& [content, id] : tokens)
    added.push_back(added_token_json({.content = content, .id = id, .special = true}));
  return added;
}

/// Byte-level BPE without merges.
Json bytes_json() {
  Json vocabulary = {{padding, 0}};
  for (int byte = 0; byte < bytes; ++byte)
    vocabulary[byte_level_character(static_cast<unsigned char>(byte))] = first_byte_id + byte;
  const Json level = byte_level_json(false, false, false);
  return {{"added_tokens", added_tokens({{padding, 0}, {mask, first_byte_id + bytes}})},
          {"pre_tokenizer", level},
          {"decoder", level},
          {"model", bpe_json(vocabulary, Json::array())}};
}

/// WordPiece with whole words as pieces.
Json listops_json() {
  Json vocabulary;
  std::int32_t id = 0;
  for (const char* piece : {padding, unknown, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "]",
                            "[MIN", "[MAX", "[MED", "[SM", "[FIRST", "[LAST"})
    vocabulary[piece] = id++;
  const auto removed = [](const char* sign) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", sign}}}, {"content", ""}};
  };
  return {{"added_tokens", added_tokens({{padding, 0}, {unknown, 1}, {mask, id}})},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", {removed("("), removed(")")}}}},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}},
          {"model", wordpiece_json(vocabulary, unknown)}};
}

}  // namespace

std::unique_ptr<Tokenizer> make_builtin_tokenizer(BuiltinTokenizer kind) {
  const bool symbols = kind == BuiltinTokenizer::listops;
  return tokenizer_of_json(tokenizer_json_text(symbols ? listops_json() : bytes_json()));
}

std::vector<std::int32_t> byte_ids(const Tokenizer& tokenizer,
                                   std::span<const std::uint8_t> values) {
  bool fits = tokenizer.vocab_size() == first_byte_id + bytes + 1;  // the last is the mask
  for (int byte = 0; fits && byte < bytes; ++byte)
    fits = tokenizer.find(byte_level_character(static_cast<unsigned char>(byte))) ==
           first_byte_id + byte;
  require_input(fits,
                "images are read as bytes, one a pixel, and the tokenizer is another; set "
                "tokenizer.builtin: bytes");
  std::vector<std::int32_t> ids;
  ids.reserve(values.size());
  for (const std::uint8_t value : values) ids.push_back(first_byte_id + value);
  return ids;
}

}  // namespace nystrom
