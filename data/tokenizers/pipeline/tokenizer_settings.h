// The files beside a tokenizer that change it: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizers/pipeline/added_tokens.h"

namespace nystrom {

struct TokenizerParts;

/// What the files of a folder say.
struct TokenizerSettings {
  /// A special token, and the place that names it.
  struct Name {
    std::string token, place;
    std::optional<AddedToken> flags = std::nullopt;  ///< where the file gives them with the name
  };
  std::optional<Name> bos, eos, unk, sep, pad, cls, mask;
  std::vector<Name> additional;
  std::optional<bool> lower_case, strip_accents, tokenize_chinese_chars, add_prefix_space,
      trim_offsets, add_bos_token, add_eos_token;
  bool clean_up_spaces = false;  ///< clean_up_tokenization_spaces
  std::string tokenizer_class;   ///< without "Fast"; empty when not said

  std::string config_place;  ///< tokenizer_config.json; empty where there is none

  /// Tokens that are added to those of the tokenizer's own file, by id: added_tokens_decoder, or
  /// else those of added_tokens.json.
  std::vector<AddedToken> added;
  std::string added_place;   ///< where they stand
  bool has_decoder = false;  ///< in added_tokens_decoder
};

/// Reads what there is, with transformers' precedence: special_tokens_map.json goes before
/// tokenizer_config.json, and neither it nor added_tokens.json is looked at where the latter has an
/// added_tokens_decoder. InputError for values of the wrong type.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder);

/// Changes a tokenizer.json as the class that tokenizer_config.json names does in
/// transformers 4.57: BERT's classes their normalizer, RoBERTa's whose spaces offsets leave out,
/// any whether a space is put before a byte-level text. Nothing without such a file.
void apply_settings(nlohmann::json& tokenizer, const TokenizerSettings& settings);

/// The same for what needs the vocabulary: Llama's and GPT-NeoX's classes replace what stands
/// around texts. InputError when a token for that is no piece.
void apply_settings(TokenizerParts& parts, const TokenizerSettings& settings);

/// Whether add_tokens_of knows the special tokens that the class has by itself.
bool knows_special_tokens(const TokenizerSettings& settings);

/// Adds the tokens of the settings to those of the tokenizer, as transformers does: those with ids,
/// and special ones by their names. InputError for names that are no pieces, and as of
/// place_added_token.
void add_tokens_of(const TokenizerSettings& settings, TokenizerParts& parts,
                   bool has_tokenizer_json);

}  // namespace nystrom
