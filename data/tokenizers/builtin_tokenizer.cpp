#include "data/tokenizers/builtin_tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;

constexpr const char* padding = "[PAD]";
constexpr const char* unknown = "[UNK]";
constexpr const char* mask = "[MASK]";
constexpr int bytes = 256;
constexpr std::int32_t first_byte_id = 1;

Json added_token(const char* content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json tokenizer_json(Json added, Json normalizer, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

/// Byte-level BPE without merges.
Json bytes_json() {
  Json vocabulary = {{padding, 0}};
  for (int byte = 0; byte < bytes; ++byte)
    vocabulary[byte_level_character(static_cast<unsigned char>(byte))] = first_byte_id + byte;
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", false},
                      {"use_regex", false}};
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", vocabulary},
                      {"merges", Json::array()}};
  const int mask_id = first_byte_id + bytes;
  return tokenizer_json({added_token(padding, 0), added_token(mask, mask_id)}, nullptr, level,
                        level, model);
}

/// WordPiece with whole words as pieces.
Json listops_json() {
  Json vocabulary;
  int id = 0;
  for (const char* piece : {padding, unknown, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "]",
                            "[MIN", "[MAX", "[MED", "[SM", "[FIRST", "[LAST"})
    vocabulary[piece] = id++;
  const auto removed = [](const char* sign) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", sign}}}, {"content", ""}};
  };
  const Json normalizer = {{"type", "Sequence"}, {"normalizers", {removed("("), removed(")")}}};
  const Json model = {{"type", "WordPiece"},
                      {"unk_token", unknown},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100},
                      {"vocab", vocabulary}};
  const Json decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}};
  return tokenizer_json({added_token(padding, 0), added_token(unknown, 1), added_token(mask, id)},
                        normalizer, {{"type", "WhitespaceSplit"}}, decoder, model);
}

}  // namespace

std::span<const EnumName<BuiltinTokenizer>> enum_names(BuiltinTokenizer) {
  static constexpr EnumName<BuiltinTokenizer> names[] = {{BuiltinTokenizer::bytes, "bytes"},
                                                         {BuiltinTokenizer::listops, "listops"}};
  return names;
}

std::unique_ptr<Tokenizer> make_builtin_tokenizer(BuiltinTokenizer kind) {
  const bool symbols = kind == BuiltinTokenizer::listops;
  const std::string text = (symbols ? listops_json() : bytes_json()).dump(1) + "\n";
  return tokenizer_of_json(text);
}

std::vector<std::int32_t> byte_ids(const Tokenizer& tokenizer,
                                   std::span<const std::uint8_t> values) {
  const std::int64_t rest = tokenizer.vocab_size() - (first_byte_id + bytes);
  bool fits = rest == 0 || rest == 1;  // older folders have no mask
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
