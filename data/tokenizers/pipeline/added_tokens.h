// The added tokens of a tokenizer.json: names that are found in text before anything else happens
// to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/pipeline/aligned_text.h"
#include "data/tokenizers/pipeline/prefix_trie.h"
#include "data/tokenizers/pipeline/string_map.h"
#include "data/tokenizers/tokenizer.h"

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
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// In the order of a file. The same content may stand in it twice, to be found in text as it is and
/// in normal text.
class AddedTokenList {
 public:
  /// Adds a token as Hugging Face's tokenizers do. One with the same content takes its flags, and
  /// once special stays so; where it was not special, it is also still found as it was found
  /// before, normalized or not.
  void add(AddedToken token);

  bool has(std::string_view content) const { return places_.find(content) != places_.end(); }
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  StringMap<std::vector<std::size_t>> places_;  // in tokens_
};

/// `added_tokens` of a tokenizer.json, put into the vocabulary where they are not. InputError as of
/// place_added_token.
AddedTokenList read_added_tokens(const JsonPart& part, Vocabulary& vocabulary);

/// Content and flags of a token; its id is left 0.
AddedToken read_added_token(const JsonPart& part);

/// Puts a token into the vocabulary if it is not there. `next` is the id that Hugging Face's
/// tokenizers give to the next new token, whatever its file says. InputError "where: …" when its id
/// is another piece's, or not `next`.
void place_added_token(const AddedToken& token, const std::string& where, std::int32_t& next,
                       Vocabulary& vocabulary);

/// Finds them. Const members are safe to use from several threads.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// `normalizer` may be null. InputError when it leaves nothing of a token: Hugging Face's
  /// tokenizers find such a one everywhere.
  AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer* normalizer);

  const std::vector<AddedToken>& all() const { return tokens_; }

  /// A stretch of text: a token's, or what lies between.
  struct Part {
    ByteRange range;
    const AddedToken* token;  ///< null for text
  };
  /// The parts of `text` in order: of those not normalized (to be asked of the text as it is), or
  /// of the normalized ones (of normal text). Special ones are text with SpecialNames::text. The
  /// longest token at the leftmost place counts. Parts overlap where a token of white space is
  /// found among the spaces that belong to the one before it.
  std::vector<Part> split(std::string_view text, bool normalized, SpecialNames names) const;

 private:
  std::vector<AddedToken> tokens_;
  PrefixTrie tries_[2];  // as they are; normalized. Values are indices of tokens_
  std::vector<bool> begins_[2] = {std::vector<bool>(256),
                                  std::vector<bool>(256)};  // bytes that one begins with
};

}  // namespace nystrom
