// Text to token ids and back. One interface for all kinds of vocabulary; implementations: data/sentencepiece_tokenizer.h.
#pragma once

#include <cstdint>
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

/// Ids of the tokens that are no text. Others (unk, pad) may stand for none of it too.
struct SpecialIds {
  std::int32_t cls, sep, pad, mask, unk;
};

/// A sequence as models take it.
struct WrappedIds {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> type_ids;  ///< 0 for the first text with its cls and sep, 1 for the second with its sep
};

/// What the names of special tokens are when they stand in a text.
enum class SpecialNames {
  text,    ///< characters like others: what strangers write never becomes a control token
  tokens,  ///< the tokens: for "Paris is the [MASK] of France."
};

/// Const members are safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of `text`, without cls and sep. The text must be valid UTF-8 (InputError otherwise).
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialNames names = SpecialNames::text) const = 0;
  /// The same ids with their places in `text`.
  virtual std::vector<Token> encode_with_offsets(std::string_view text, SpecialNames names = SpecialNames::text) const = 0;
  /// The text of ids, special tokens left out or by their names, as Hugging Face's fast tokenizers decode them. Error for an id outside the
  /// vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const = 0;

  virtual std::int64_t vocab_size() const = 0;
  /// The piece of an id, as it stands in the vocabulary. Error for an id outside it.
  virtual const std::string& piece(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> find(std::string_view piece) const = 0;
  virtual const SpecialIds& special() const = 0;
  /// Whether a word begins with this token; special tokens begin one. For masking of whole words.
  virtual bool starts_word(std::int32_t id) const = 0;

  /// Whether id is cls, sep, pad, mask or unk.
  bool is_special(std::int32_t id) const;
  /// cls first sep
  WrappedIds wrap(std::span<const std::int32_t> first) const;
  /// cls first sep second sep
  WrappedIds wrap(std::span<const std::int32_t> first, std::span<const std::int32_t> second) const;
};

}  // namespace nystrom
