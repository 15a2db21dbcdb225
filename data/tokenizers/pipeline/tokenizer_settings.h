// The files that change a tokenizer in the same folder: tokenizer_config.json,
// special_tokens_map.json, added_tokens.json, and config.json for the tokenizer's class.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizers/pipeline/added_tokens.h"
#include "data/tokenizers/pipeline/tokenizer_classes.h"
#include "data/tokenizers/pipeline/vocabulary.h"

namespace nystrom {

struct TokenizerParts;

/// The content of the settings files of a folder.
struct TokenizerSettings {
  /// A special token and the place in a file that names it.
  struct Name {
    std::string token, place;
    std::optional<AddedToken> flags = std::nullopt;  ///< set when the file gives them here
  };
  std::array<std::optional<Name>, roles> names;  ///< those that the files name, by Role
  std::vector<Name> additional;  ///< tokens without a role; the last flags of one count
  std::vector<Name> own_roles;   ///< of roles that a file makes; a token that is named before stays
  std::optional<bool> lower_case, strip_accents, keep_accents, tokenize_chinese_chars,
      add_prefix_space, trim_offsets, add_bos_token, add_eos_token;
  /// The option clean_up_tokenization_spaces: decode() removes spaces before punctuation.
  bool clean_up_spaces = false;
  /// The option split_special_tokens: names of special tokens in a text are always ordinary text.
  bool splits_special = false;
  std::optional<bool> token_types;            ///< whether model_input_names lists token_type_ids
  const TokenizerClass* its_class = nullptr;  ///< null when no file names one
  bool made_of_vocabulary = false;  ///< the tokenizer.json stands for a vocab.txt or .json

  std::string config_place;  ///< path of tokenizer_config.json; empty without that file

  /// Tokens to add to those of the tokenizer's own file, ordered by id. They come from
  /// added_tokens_decoder, or otherwise from added_tokens.json.
  std::vector<AddedToken> added;
  std::string added_place;   ///< the place in a file that lists them
  bool has_decoder = false;  ///< whether added_tokens_decoder lists them

  Family family() const { return its_class != nullptr ? its_class->family : Family::plain; }
  /// The name of a special token: the files', else the class's, else empty.
  std::string name_of(Role::Index role) const {
    return names[role] ? names[role]->token
                       : std::string(its_class != nullptr ? its_class->names[role] : "");
  }
  /// The piece of that name. Without a name there is none, though a vocabulary may have "".
  std::optional<std::int32_t> find(Role::Index role, const Vocabulary& vocabulary) const {
    const std::string name = name_of(role);
    return name.empty() ? std::nullopt : vocabulary.find(name);
  }
};

/// Reads the settings of a folder with transformers' precedence. special_tokens_map.json overrides
/// tokenizer_config.json. When tokenizer_config.json has an added_tokens_decoder,
/// special_tokens_map.json and added_tokens.json are ignored. The class is that of
/// tokenizer_config.json, else the tokenizer_class of config.json, else that of its model_type.
/// Throws an InputError for values of the wrong type, for a class that needs Python or that
/// transformers lacks, and for settings with which transformers reads other files than
/// tokenizer.json.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder);

/// Changes a tokenizer.json as the class does in transformers 4.57. BERT's classes change their
/// normalizer. RoBERTa's classes change whether offsets exclude spaces. Every class but Llama's and
/// T5's changes whether a byte-level text gets a space in front. Does nothing without a class and a
/// tokenizer_config.json.
void apply_settings(nlohmann::json& tokenizer, const TokenizerSettings& settings);

/// Applies the settings that need the vocabulary: Llama's and GPT-NeoX's classes replace the
/// template. They put bos before and eos after a text, depending on flags; in a pair both texts get
/// them. Throws an InputError when a token of the new template is not a piece.
void apply_settings(TokenizerParts& parts, const TokenizerSettings& settings);

/// Adds the tokens of the settings to the tokenizer as transformers does: tokens with ids, and
/// special tokens by their names. Throws an InputError for names that are not pieces, or like
/// place_added_token.
void add_tokens_of(const TokenizerSettings& settings, TokenizerParts& parts);

/// Sets parts.special, and what the settings say about the files to write. The names of the
/// settings come first; a name that is not a piece is an InputError. The tokens of the
/// post-processor, the model's unknown token, and pieces with common names follow. Added tokens
/// that the settings or the class name become special.
///
/// When the post-processor adds no special tokens but cls and sep are known, this function gives it
/// the template cls text sep. Pretraining, tasks, prediction and exports then all use the same
/// template. Without cls or sep a text gets no special tokens, and masked language models refuse
/// the tokenizer.
void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings);

}  // namespace nystrom
