// Conversion between text and token ids. data/tokenizers/pipeline/pipeline_tokenizer.h implements
// it for all kinds of vocabulary. data/tokenizers/tokenizer_folder.h opens them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// A token, its byte range in the text, and the number of its word. The range of a bare word mark
/// is empty. The pre-tokenizer cuts a text into words; an added token is one.
struct Token {
  std::int32_t id;
  std::uint32_t begin, end;
  std::uint32_t word = 0;
  friend bool operator==(const Token&, const Token&) = default;
};

/// Ids of the special tokens; no_id for a token that the tokenizer lacks. Unknown and padding
/// tokens may also be absent.
struct SpecialIds {
  std::int32_t cls, sep, pad, mask, unk;
  bool has(std::int32_t id) const {
    return id == cls || id == sep || id == pad || id == mask || id == unk;
  }
};
inline constexpr std::int32_t no_id = -1;

/// A sequence with the special tokens of the model.
struct WrappedIds {
  std::vector<std::int32_t> ids;
  /// 0 for the first text with its cls and sep. Mostly 1 for the second text with its sep.
  std::vector<std::int32_t> type_ids;
};

/// The meaning of special tokens' names inside a text.
enum class SpecialNames {
  text,    ///< ordinary characters: untrusted text never becomes a control token
  tokens,  ///< the tokens themselves: for "Paris is the [MASK] of France."
};

/// Name and content of a file.
struct TokenizerFile {
  std::string name, content;
};

/// Interface of all tokenizers. Const members may be called from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the ids of `text`, without cls and sep. Throws an InputError unless the text is valid
  /// UTF-8.
  std::vector<std::int32_t> encode(std::string_view text,
                                   SpecialNames names = SpecialNames::text) const;
  /// Returns the same ids with their byte ranges in `text`. Throws like encode().
  virtual std::vector<Token> encode_with_offsets(std::string_view text,
                                                 SpecialNames names = SpecialNames::text) const = 0;
  /// Returns the text of `ids`, as Hugging Face's fast tokenizers decode them. Special tokens are
  /// skipped, or written by their names. Throws an Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const = 0;

  /// The number of ids: the largest id plus 1.
  virtual std::int64_t vocab_size() const = 0;
  /// The piece of an id as the vocabulary has it. Throws an Error for an id outside the vocabulary.
  virtual const std::string& piece(std::int32_t id) const = 0;
  /// The id of a piece, or nothing when the vocabulary lacks it.
  virtual std::optional<std::int32_t> find(std::string_view piece) const = 0;
  /// The ids of the special tokens.
  virtual const SpecialIds& special() const = 0;
  /// The text of a token among others: a space in front when it begins a word, no marks. It may end
  /// inside a character. Throws an Error for an id outside the vocabulary.
  virtual std::string surface(std::int32_t id) const = 0;
  /// Whether the pieces of this tokenizer mark the beginnings or the ends of words.
  virtual bool marks_words() const = 0;

  /// The result of `files` without the lengths. Tokenizers with equal definitions give equal ids.
  virtual std::string definition() const = 0;
  /// Returns a tokenizer.json and a tokenizer_config.json, which open_tokenizer and Hugging Face's
  /// AutoTokenizer read alike, whatever files it was opened from. `max_length`, the most tokens
  /// that the model was trained on, with the special ones, becomes their model_max_length.
  /// Without `token_types` they name none among the model's inputs.
  virtual std::vector<TokenizerFile> files(std::int64_t max_length,
                                           bool token_types = true) const = 0;

  /// Whether the id is cls, sep, pad, mask or unk.
  bool is_special(std::int32_t id) const;
  /// Adds the special tokens to a text, by the tokenizer's template: mostly cls first sep.
  virtual WrappedIds wrap(std::span<const std::int32_t> first) const = 0;
  /// Adds the special tokens to two texts: mostly cls first sep second sep.
  virtual WrappedIds wrap(std::span<const std::int32_t> first,
                          std::span<const std::int32_t> second) const = 0;
};

/// Throws an InputError unless the tokenizer suits a masked language model: it has cls, sep, pad
/// and mask, and wrap() puts cls before a text and sep after it. Or it has pad and mask, and wrap()
/// adds nothing.
void require_masked_lm_tokens(const Tokenizer& tokenizer);
/// Throws an InputError if two of cls, sep, pad, mask and unk are one token: token shards tell them
/// apart by their ids.
void require_distinct_special_tokens(const Tokenizer& tokenizer);
/// Throws an InputError if the tokenizer's template of two texts leaves the second one out.
void require_pairs(const Tokenizer& tokenizer);
/// Throws an InputError for a prompt with the name of a special token.
void require_plain_prompt(const Tokenizer& tokenizer, std::string_view prompt);

/// Writes files() into an existing folder.
void write_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                     std::int64_t max_length, bool token_types = true);

}  // namespace nystrom
