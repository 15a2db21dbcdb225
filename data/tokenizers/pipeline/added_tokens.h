// The added tokens of a tokenizer.json: names that are searched in text before any other step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/normalizers.h"
#include "data/tokenizers/pipeline/prefix_trie.h"
#include "data/tokenizers/pipeline/string_map.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

class JsonPart;
class Vocabulary;

struct AddedToken {
  std::string content{};
  std::int32_t id = 0;
  bool special = false;                 ///< a control token, not text
  bool normalized = false;              ///< searched in normalized text, in its own normalized form
  bool single_word = false;             ///< does not match next to a word character
  bool lstrip = false, rstrip = false;  ///< includes white space before it, after it
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// Added tokens in the order of a file. The same content may appear twice: once for the original
/// text and once for normalized text.
class AddedTokenList {
 public:
  /// Adds a token as Hugging Face's tokenizers do. Tokens with the same content take the new flags,
  /// except `normalized`. A token stays special once it was special. If the existing
  /// token was not special and differs in `normalized`, the new token is added as well.
  void add(AddedToken token);

  /// Whether a token with this content was added.
  bool has(std::string_view content) const { return places_.find(content) != places_.end(); }
  /// All tokens in order.
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  StringMap<std::vector<std::size_t>> places_;  // indices into tokens_
};

/// Reads `added_tokens` of a tokenizer.json and adds missing tokens to the vocabulary. Throws an
/// InputError for a wrong value, or like place_added_token.
AddedTokenList read_added_tokens(const JsonPart& part, Vocabulary& vocabulary);

/// Reads the content and the flags of a token; its id stays 0. Throws an InputError for a wrong
/// value.
AddedToken read_added_token(const JsonPart& part);

/// Adds a token to the vocabulary if it is missing. `next` is the id that Hugging Face's tokenizers
/// give to the next new token, whatever the file says. Throws an InputError "where: …" when its id
/// belongs to another piece or is not `next`.
void place_added_token(const AddedToken& token, const std::string& where, std::int32_t& next,
                       Vocabulary& vocabulary);

/// Search for added tokens in text. Const members may be called from several threads.
class AddedTokens {
 public:
  /// `normalizer` may be empty. Throws an InputError when it makes a token empty: Hugging Face's
  /// tokenizers would find such a token everywhere.
  AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer& normalizer);

  /// A range of text: an added token or ordinary text.
  struct Part {
    ByteRange range;
    const AddedToken* token;  ///< null for ordinary text
  };
  /// Splits `text` into parts in order. With `normalized`, `text` is normalized text and only
  /// normalized tokens are searched; without it, the original text and the other tokens. With
  /// SpecialNames::text special tokens are ordinary text.
  ///
  /// The longest token at the leftmost position wins. Parts overlap when a token of white space is
  /// found among the spaces that the token before it includes.
  std::vector<Part> split(std::string_view text, bool normalized, SpecialNames names) const;

 private:
  std::vector<AddedToken> tokens_;  // special ones first
  PrefixTrie tries_[2];             // index 1: normalized forms. Values are indices into tokens_
};

}  // namespace nystrom
