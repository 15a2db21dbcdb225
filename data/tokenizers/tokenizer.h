// Text to token ids and back. One interface for all kinds of vocabulary; implementations:
// data/tokenizers/sentencepiece_tokenizer.h and data/tokenizers/pipeline/pipeline_tokenizer.h.
// data/tokenizers/tokenizer_folder.h opens them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// A token, and the bytes of the text it stands for (none for a bare word mark).
struct Token {
  std::int32_t id;
  std::uint32_t begin, end;
  friend bool operator==(const Token&, const Token&) = default;
};

/// Ids of the tokens that are no text, no_id for those that a tokenizer does not have. Others (unk,
/// pad) may stand for none of it too.
struct SpecialIds {
  std::int32_t cls, sep, pad, mask, unk;
};
inline constexpr std::int32_t no_id = -1;

/// A sequence as models take it.
struct WrappedIds {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;  ///< 0 for the first text with its cls and sep; for the
                                       ///< second with its sep mostly 1
};

/// What the names of special tokens are when they stand in a text.
enum class SpecialNames {
  text,    ///< characters like others: what strangers write never becomes a control token
  tokens,  ///< the tokens: for "Paris is the [MASK] of France."
};

/// Name and content of a file.
struct TokenizerFile {
  std::string name, content;
};

/// Const members are safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of `text`, without cls and sep. The text must be valid UTF-8 (InputError otherwise).
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           SpecialNames names = SpecialNames::text) const = 0;
  /// The same ids with their places in `text`.
  virtual std::vector<Token> encode_with_offsets(std::string_view text,
                                                 SpecialNames names = SpecialNames::text) const = 0;
  /// The text of ids, special tokens left out or by their names, as Hugging Face's fast tokenizers
  /// decode them. Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const = 0;

  virtual std::int64_t vocab_size() const = 0;
  /// The piece of an id, as it stands in the vocabulary. Error for an id outside it.
  virtual const std::string& piece(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> find(std::string_view piece) const = 0;
  virtual const SpecialIds& special() const = 0;
  /// Whether a word begins with this token; special tokens begin one. For masking of whole words.
  virtual bool starts_word(std::int32_t id) const = 0;
  /// Whether pieces tell that at all.
  virtual bool marks_words() const { return true; }

  /// All that decides what it gives: tokenizers with the same definition are the same.
  virtual std::string definition() const = 0;
  /// The files that open_tokenizer and Hugging Face's AutoTokenizer read. `max_length` is the
  /// number of tokens, special ones included, that the model takes; it goes into files that are
  /// written anew, and is left out of those that are carried on as they were.
  virtual std::vector<TokenizerFile> files(std::int64_t max_length) const = 0;

  /// Whether id is cls, sep, pad, mask or unk.
  bool is_special(std::int32_t id) const;
  /// The text as a model takes it: cls first sep, or what the tokenizer's template says.
  virtual WrappedIds wrap(std::span<const std::int32_t> first) const;
  /// Two texts: cls first sep second sep, or what the tokenizer's template says.
  virtual WrappedIds wrap(std::span<const std::int32_t> first,
                          std::span<const std::int32_t> second) const;
};

/// InputError unless the tokenizer has cls, sep, pad and mask, and wrap() puts cls before a text
/// and sep behind it: what masked language models are trained on.
void require_masked_lm_tokens(const Tokenizer& tokenizer);

/// Writes files() into an existing folder.
void write_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                     std::int64_t max_length);

}  // namespace nystrom
