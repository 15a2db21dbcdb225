// The tokenizer classes of transformers 4.57: their special tokens, and the changes that they make
// to a tokenizer.json.
#pragma once

#include <array>
#include <string_view>

namespace nystrom {

/// The roles of special tokens.
struct Role {
  enum Index : std::size_t { bos, eos, unk, sep, pad, cls, mask };
};
inline constexpr std::size_t roles = 7;
/// Their keys in tokenizer_config.json.
inline constexpr std::array<const char*, roles> role_keys = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// Groups of classes whose constructors change a tokenizer.json in the same way.
enum class Family { plain, bert, mpnet, roberta, gpt2, gpt_neox, llama };

/// A class that reads a tokenizer from its files alone.
struct TokenizerClass {
  std::string_view name;  ///< without "Fast"
  Family family = Family::plain;
  bool token_types = false;                   ///< it gives token_type_ids by default
  std::array<std::string_view, roles> names;  ///< special tokens by default; empty: none
  /// The mask token includes the space before it, and may be searched in normalized text.
  enum class Mask { bare, with_space, with_space_in_normal_text } mask = Mask::bare;
  /// The model_type of its models, separated by spaces.
  std::string_view model_types;
  std::string_view more_names = {};  ///< further special tokens by default, separated by spaces
  /// The roles whose tokens lose the flags that tokenizer.json gives them, unless the settings name
  /// or change them: bits by Role.
  unsigned flagless = 0;
};

/// The class of a name, with or without "Fast"; null for classes that transformers lacks, or that
/// need Python.
const TokenizerClass* find_tokenizer_class(std::string_view name);
/// The class of a model_type, if transformers has one that reads files alone.
const TokenizerClass* tokenizer_class_of_model(std::string_view model_type);
/// Whether the tokenizer of a model_type needs Python.
bool needs_python_tokenizer(std::string_view model_type);

}  // namespace nystrom
