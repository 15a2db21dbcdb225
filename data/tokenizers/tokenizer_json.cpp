#include "data/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/prefix_trie.h"
#include "data/tokenizers/pipeline/word_models.h"
#include "data/tokenizers/roberta_pieces.h"

namespace nystrom {
namespace {

using Json = nlohmann::ordered_json;

Json replace(const char* kind, const std::string& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

/// A character class in Oniguruma's syntax: [\x{300}-\x{314}…].
std::string character_class(const std::vector<std::pair<char32_t, char32_t>>& ranges) {
  std::string text = "[";
  for (const auto& [first, last] : ranges) {
    text += fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(first));
    if (last != first) text += fmt::format("-\\x{{{:X}}}", static_cast<std::uint32_t>(last));
  }
  return text + "]";
}

/// The steps of normalize() and of the model's charsmap. AlbertTokenizerFast differs in three ways,
/// and each can change ids. It keeps spaces at the ends and joins fewer kinds of them. Its
/// StripAccents removes all marks, not only those with a combining class. Its Precompiled cannot
/// compose decomposed Korean again; NFC can.
Json normalizer(const SentencePieceTokenizer& tokenizer) {
  const std::string& charsmap = tokenizer.model().charsmap;
  Json steps = Json::array();
  steps.push_back(replace("Regex", character_class(white_space_ranges()) + "+", " "));
  steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  steps.push_back(replace("String", "``", "\""));
  steps.push_back(replace("String", "''", "\""));
  if (!tokenizer.options().keep_accents) {
    steps.push_back({{"type", "NFKD"}});
    steps.push_back(replace("Regex", character_class(accent_ranges()), ""));
  }
  if (tokenizer.options().lower_case) steps.push_back({{"type", "Lowercase"}});
  if (!charsmap.empty()) {
    constexpr std::string_view decomposed_ga = "\xE1\x84\x80\xE1\x85\xA1", ga = "\xEA\xB0\x80";
    if (Charsmap::replacement(charsmap, decomposed_ga) == ga) steps.push_back({{"type", "NFC"}});
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(charsmap)}});
  }
  steps.push_back(replace("Regex", " {2,}", " "));
  steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

/// The score that gives a user-defined piece the same precedence as in the library.
double user_defined_score(const SentencePiece& piece, float largest) {
  return static_cast<double>(static_cast<float>(piece.text.size()) * largest) - 0.1;
}

Json unigram(const SentencePieceModel& model, std::int32_t unknown) {
  /// The library starts from this positive value, so nearly every bonus is -0.1.
  float largest = std::numeric_limits<float>::min();
  for (const SentencePiece& piece : model.pieces)
    if (piece.type == SentencePiece::Type::normal) largest = std::max(largest, piece.score);
  Json vocabulary = Json::array();
  for (const SentencePiece& piece : model.pieces) {
    const bool user_defined = piece.type == SentencePiece::Type::user_defined;
    vocabulary.push_back({piece.text, user_defined ? user_defined_score(piece, largest)
                                                   : static_cast<double>(piece.score)});
  }
  return {
      {"type", "Unigram"}, {"unk_id", unknown}, {"vocab", vocabulary}, {"byte_fallback", false}};
}

struct Merge {
  float score;
  std::size_t id;    // id of the result
  std::size_t left;  // length of the left piece in bytes
};

/// Every way to build a piece from two others, the best first. The library merges any two
/// neighbours that form a piece.
std::vector<Merge> merges(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == SentencePiece::Type::normal)
      ids.emplace(model.pieces[id].text, id);
  std::vector<Merge> result;
  for (const auto& [text, id] : ids) {
    for (std::size_t left = 1; left < text.size(); ++left)
      if (ids.count(text.substr(0, left)) > 0 && ids.count(text.substr(left)) > 0)
        result.push_back({model.pieces[id].score, id, left});
  }
  std::sort(result.begin(), result.end(), [](const Merge& a, const Merge& b) {
    return a.score != b.score ? a.score > b.score : a.id != b.id ? a.id < b.id : a.left < b.left;
  });
  return result;
}

/// User-defined pieces, the longest first.
std::vector<std::string_view> user_defined_pieces(const SentencePieceModel& model) {
  std::vector<std::string_view> pieces;
  for (const SentencePiece& piece : model.pieces)
    if (piece.type == SentencePiece::Type::user_defined) pieces.push_back(piece.text);
  std::sort(pieces.begin(), pieces.end(), [](std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  return pieces;
}

/// Whether a word that is a piece skips the merges. A user-defined piece of several characters
/// cannot be reached in another way.
bool ignores_merges(const SentencePieceModel& model) {
  const auto pieces = user_defined_pieces(model);
  return std::any_of(pieces.begin(), pieces.end(),
                     [](std::string_view piece) { return piece.size() > utf8_length(piece[0]); });
}

Json bpe(const SentencePieceModel& model, std::int32_t unknown) {
  Json vocabulary = Json::object(), pairs = Json::array();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) vocabulary[model.pieces[id].text] = id;
  for (const Merge& merge : merges(model)) {
    const std::string& text = model.pieces[merge.id].text;
    pairs.push_back({text.substr(0, merge.left), text.substr(merge.left)});
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.pieces[static_cast<std::size_t>(unknown)].text},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", false},
          {"ignore_merges", ignores_merges(model)},
          {"vocab", vocabulary},
          {"merges", pairs}};
}

std::vector<std::int32_t> sorted_specials(const SpecialIds& special) {
  std::vector<std::int32_t> ids = {special.cls, special.sep, special.pad, special.mask,
                                   special.unk};
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// The mask token includes the space before it, so that "the [MASK] of" reads as three words.
Json added_token(const SentencePieceTokenizer& tokenizer, std::int32_t id) {
  return {{"content", tokenizer.piece(id)},
          {"single_word", false},
          {"lstrip", id == tokenizer.special().mask},
          {"rstrip", false},
          {"normalized", false},
          {"special", true}};
}

Json post_processor(const SentencePieceTokenizer& tokenizer) {
  const SpecialIds& special = tokenizer.special();
  const auto token = [&](std::int32_t id, int type) {
    return Json{{"SpecialToken", {{"id", tokenizer.piece(id)}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  Json single = Json::array({token(special.cls, 0), text("A", 0), token(special.sep, 0)});
  Json pair = single;
  pair.push_back(text("B", 1));
  pair.push_back(token(special.sep, 1));
  Json tokens = Json::object();
  for (const std::int32_t id : {special.cls, special.sep}) {
    const std::string& name = tokenizer.piece(id);
    tokens[name] = {{"id", name}, {"ids", Json::array({id})}, {"tokens", Json::array({name})}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

Json metaspace() {
  return {{"type", "Metaspace"},
          {"replacement", "\xE2\x96\x81"},
          {"prepend_scheme", "always"},
          {"split", true}};
}

/// Splits text into words. In BPE models each user-defined piece is a word of its own, so that
/// nothing merges with it.
Json pre_tokenizer(const SentencePieceModel& model) {
  const auto pieces = user_defined_pieces(model);
  if (model.kind != SentencePieceModel::Kind::bpe || pieces.empty()) return metaspace();
  std::string any;
  for (const std::string_view piece : pieces) {
    if (!any.empty()) any += '|';
    for (std::size_t at = 0; at < piece.size();)
      any += fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(next_code_point(piece, at)));
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", any}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({metaspace(), split})}};
}

Json special_tokens_map(const SentencePieceTokenizer& tokenizer) {
  const SpecialIds& special = tokenizer.special();
  Json mask = added_token(tokenizer, special.mask);
  mask.erase("special");
  return {{"bos_token", tokenizer.piece(special.cls)},
          {"cls_token", tokenizer.piece(special.cls)},
          {"eos_token", tokenizer.piece(special.sep)},
          {"sep_token", tokenizer.piece(special.sep)},
          {"pad_token", tokenizer.piece(special.pad)},
          {"unk_token", tokenizer.piece(special.unk)},
          {"mask_token", mask}};
}

Json tokenizer_config(const SentencePieceTokenizer& tokenizer, std::int64_t max_length) {
  Json config = special_tokens_map(tokenizer);
  config["mask_token"] = tokenizer.piece(tokenizer.special().mask);
  Json added = Json::object();
  for (const std::int32_t id : sorted_specials(tokenizer.special()))
    added[std::to_string(id)] = added_token(tokenizer, id);
  config["added_tokens_decoder"] = added;
  config["do_lower_case"] = tokenizer.options().lower_case;
  config["keep_accents"] = tokenizer.options().keep_accents;
  config["remove_space"] = true;
  config["clean_up_tokenization_spaces"] = false;
  config["model_max_length"] = max_length;
  // AlbertTokenizer makes a tokenizer of its own in transformers 5, with other ids. This class
  // reads tokenizer.json, and there leaves out token_type_ids unless told.
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  return config;
}

}  // namespace

void require_writable(const SentencePieceModel& model, const std::string& source) {
  if (model.kind != SentencePieceModel::Kind::bpe || !ignores_merges(model)) return;
  Vocabulary vocabulary;
  Merges pairs;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    vocabulary.add(model.pieces[id].text, static_cast<std::int32_t>(id));
  for (const Merge& merge : merges(model)) {
    const std::string& text = model.pieces[merge.id].text;
    pairs.emplace_back(text.substr(0, merge.left), text.substr(merge.left));
  }
  const auto merged = bpe_model(std::move(vocabulary), pairs, {}, source);
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (const std::string_view piece : user_defined_pieces(model)) entries.emplace_back(piece, 0);
  const PrefixTrie user_defined(std::move(entries));
  const auto is_cut = [&](std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at)
      if (user_defined.longest(text.substr(at)).first > 0) return true;
    return false;
  };
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != SentencePiece::Type::normal || is_cut(piece.text)) continue;
    std::vector<Token> tokens;
    merged->encode(piece.text, tokens);
    require_input(tokens.size() == 1,
                  "{}: merging makes {} pieces of '{}', which is one itself; beside a user-defined "
                  "piece of several characters, '{}', Hugging "
                  "Face's form of the model would give other ids",
                  source, tokens.size(), printable(piece.text),
                  printable(user_defined_pieces(model).front()));
  }
}

std::string tokenizer_json(const SentencePieceTokenizer& tokenizer) {
  const SentencePieceModel& model = tokenizer.model();
  const std::int32_t unknown = tokenizer.special().unk;
  Json added = Json::array();
  for (const std::int32_t id : sorted_specials(tokenizer.special())) {
    Json token = {{"id", id}};
    token.update(added_token(tokenizer, id));
    added.push_back(token);
  }
  const Json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", normalizer(tokenizer)},
      {"pre_tokenizer", pre_tokenizer(model)},
      {"post_processor", post_processor(tokenizer)},
      {"decoder", metaspace()},
      {"model", model.kind == SentencePieceModel::Kind::bpe ? bpe(model, unknown)
                                                            : unigram(model, unknown)}};
  return file.dump() + "\n";
}

std::vector<TokenizerFile> sentencepiece_files(const SentencePieceTokenizer& tokenizer,
                                               std::int64_t max_length) {
  return {{"tokenizer.json", tokenizer_json(tokenizer)},
          {"special_tokens_map.json", special_tokens_map(tokenizer).dump(2) + "\n"},
          {"tokenizer_config.json", tokenizer_config(tokenizer, max_length).dump(2) + "\n"},
          {"spiece.model", tokenizer.bytes()}};
}

}  // namespace nystrom
