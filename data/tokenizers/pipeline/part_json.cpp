#include "data/tokenizers/pipeline/part_json.h"

#include <fmt/format.h>

#include "data/tokenizers/pipeline/added_tokens.h"

namespace nystrom {

using Json = nlohmann::json;

namespace {

/// Appends JSON without spaces. The last digit of a score may decide between segmentations, and
/// nlohmann's own writer does not always choose the digits nearest to a number.
void append(const Json& value, std::string& text) {
  if (value.is_structured()) {
    text += value.is_object() ? '{' : '[';
    for (auto each = value.begin(); each != value.end(); ++each) {
      if (each != value.begin()) text += ',';
      if (value.is_object()) text += Json(each.key()).dump() + ':';
      append(*each, text);
    }
    text += value.is_object() ? '}' : ']';
  } else if (value.is_binary()) {
    text.append(value.get_binary().begin(), value.get_binary().end());
  } else if (value.is_number_float()) {
    const std::string number = fmt::format("{}", value.get<double>());
    const bool is_whole = number.find_first_of(".e") == number.npos;
    text += is_whole ? number + ".0" : number;  // readers take 4 for an integer
  } else {
    text += value.dump();
  }
}

}  // namespace

Json number_as_it_stands(std::string_view digits) {
  return Json::binary(std::vector<std::uint8_t>(digits.begin(), digits.end()));
}

std::string tokenizer_json_text(Json members) {
  members.emplace("version", "1.0");
  members.emplace("added_tokens", Json::array());
  for (const char* part :
       {"truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
    members.emplace(part, nullptr);
  std::string text;
  append(members, text);
  return text + "\n";
}

Json added_token_json(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

Json metaspace_json() {
  return {{"type", "Metaspace"},
          {"replacement", "\xE2\x96\x81"},
          {"prepend_scheme", "always"},
          {"split", true}};
}

Json byte_level_json(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", use_regex}};
}

Json bpe_json(const Json& vocabulary, const Json& merges, const Json& unknown) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", !unknown.is_null()},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocabulary},
          {"merges", merges}};
}

Json unigram_json(const Json& vocabulary, std::int32_t unknown) {
  return {
      {"type", "Unigram"}, {"unk_id", unknown}, {"vocab", vocabulary}, {"byte_fallback", false}};
}

Json wordpiece_json(const Json& vocabulary, const std::string& unknown) {
  return {{"type", "WordPiece"},
          {"unk_token", unknown},
          {"continuing_subword_prefix", "##"},
          {"max_input_chars_per_word", 100},
          {"vocab", vocabulary}};
}

}  // namespace nystrom
