// Which tokens of a vocabulary are special.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/tokenizers/pipeline_tokenizer.h"

namespace nystrom {

/// What tokenizer_config.json and special_tokens_map.json of a folder say.
struct TokenizerSettings {
  /// Names of special tokens, and the file that gives them.
  struct Name {
    std::string token, file;
  };
  std::optional<Name> cls, sep, pad, mask, unk;
  std::optional<bool> lower_case, strip_accents, tokenize_chinese_chars, add_prefix_space;
  bool clean_up_spaces = false;  ///< clean_up_tokenization_spaces
  std::string tokenizer_class;   ///< empty when not said
};

/// Reads what there is; tokenizer_config.json goes before special_tokens_map.json. InputError for values of the wrong type.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder);

/// Fills in parts.special: what the settings name (InputError when it is no piece), else what the post-processor puts around texts, the
/// model's unknown token, and pieces of the usual names.
void find_special_ids(TokenizerParts& parts, const TokenizerSettings& settings);

}  // namespace nystrom
