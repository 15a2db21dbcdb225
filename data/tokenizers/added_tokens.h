// The added tokens of a tokenizer.json: names that are found in text before anything else happens to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "data/tokenizers/aligned_text.h"
#include "data/tokenizers/prefix_trie.h"

namespace nystrom {

class JsonPart;
class TextNormalizer;
class Vocabulary;

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;                 ///< stands for no text
  bool normalized = false;              ///< found in normalised text, as its own normalised form
  bool single_word = false;             ///< not found beside a character of a word
  bool lstrip = false, rstrip = false;  ///< takes the white space before it, behind it
};

/// `added_tokens` of a tokenizer.json, put into the vocabulary where they are not. InputError when an id is another piece's.
std::vector<AddedToken> read_added_tokens(const JsonPart& part, Vocabulary& vocabulary);

/// Finds them. Const members are safe to use from several threads.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// `normalizer` may be null.
  AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer* normalizer);

  const std::vector<AddedToken>& all() const { return tokens_; }

  /// A stretch of text: a token's, or what lies between.
  struct Part {
    ByteRange range;
    const AddedToken* token;  ///< null for text
  };
  /// The parts of `text` in order: of those not normalized (to be asked of the text as it is), or of the normalized ones (of normal text).
  /// Special ones are text with SpecialNames::text. The longest token at the leftmost place counts.
  std::vector<Part> split(std::string_view text, bool normalized, SpecialNames names) const;

 private:
  std::vector<AddedToken> tokens_;
  PrefixTrie tries_[2];  // as they are; normalized. Values are indices of tokens_
  std::vector<bool> begins_[2] = {std::vector<bool>(256), std::vector<bool>(256)};  // bytes that one begins with
};

}  // namespace nystrom
