#include "data/tokenizers/pipeline/pipeline_tokenizer.h"

#include <algorithm>
#include <mutex>

#include "core/check.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "data/tokenizers/pipeline/unicode.h"

namespace nystrom {
namespace {

/// Number of spaces at the beginning and at the end of a piece.
struct Spaces {
  std::uint32_t leading = 0, trailing = 0;
};

/// Whether a character is white space or the byte-level character of a space.
bool is_written_space(char32_t c) { return c == 0x120 || is_white_space(c); }

Spaces spaces_of(std::string_view piece) {
  Spaces spaces;
  bool inside = false;
  for_each_character(piece, [&](char32_t c) {
    const bool space = is_written_space(c);
    inside |= !space;
    if (space && !inside) ++spaces.leading;
    spaces.trailing = space ? spaces.trailing + 1 : 0;
  });
  return spaces;
}

/// The encoded words of one thread, as models encode each word independently of its context. It
/// changes the speed only, never the result.
class WordCache {
 public:
  /// Returns the tokens of `word` with their offsets in it, from the cache or from encode(word,
  /// tokens). `encode` appends the tokens. The reference is valid until the next call.
  template <class Encode>
  const std::vector<Token>& find(std::string_view word, const Encode& encode) {
    const bool keeps = word.size() <= max_word_bytes;
    if (keeps) {
      const auto found = words_.find(word);
      if (found != words_.end()) return found->second;
    }
    uncached_.clear();
    encode(word, uncached_);
    if (!keeps || words_.size() >= max_words) return uncached_;
    return words_.emplace(word, uncached_).first->second;
  }

 private:
  static constexpr std::size_t max_words = std::size_t{1} << 15;
  static constexpr std::size_t max_word_bytes = 48;

  StringMap<std::vector<Token>> words_;
  std::vector<Token> uncached_;
};

/// The caches of one tokenizer: one for each active thread.
class WordCaches {
 public:
  /// Returns a cache for exclusive use. Return it with back().
  std::unique_ptr<WordCache> borrow() {
    const std::lock_guard lock(mutex_);
    if (caches_.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(caches_.back());
    caches_.pop_back();
    return cache;
  }
  /// Takes a borrowed cache back.
  void back(std::unique_ptr<WordCache> cache) {
    const std::lock_guard lock(mutex_);
    caches_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> caches_;  // the caches that no thread uses
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts)
      : parts_(std::move(parts)), added_(parts_.added.all(), parts_.normalizer) {
    const Vocabulary& vocabulary = parts_.vocabulary;
    special_.assign(static_cast<std::size_t>(vocabulary.size()), false);
    for (const AddedToken& token : parts_.added.all())
      special_[static_cast<std::size_t>(token.id)] = token.special;
    if (parts_.model->writes_unknown_text())
      unknown_as_text_ = parts_.model->unknown().value_or(no_id);
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
      hidden_.push_back(special_[static_cast<std::size_t>(id)] || parts_.special.has(id));
      if (parts_.post_processor.trims_offsets) spaces_.push_back(spaces_of(vocabulary.piece(id)));
    }
  }

  std::vector<Token> encode_with_offsets(std::string_view text, SpecialNames names) const override {
    require_input(is_valid_utf8(text), "the text is not valid UTF-8 at byte {}",
                  valid_utf8_prefix(text));
    require(text.size() < (std::uint64_t{1} << 31),
            "tokenizer: got a text of {} bytes, expected less than 2 GiB", text.size());
    Encoding encoding{text, parts_.settings.splits_special ? SpecialNames::text : names, {}};
    encoding.tokens.reserve(text.size() / 4 + 1);
    WordCaches& own = caches_[encoding.names == SpecialNames::tokens];
    auto cache = own.borrow();
    for (const auto& [range, token] : added_.split(text, false, encoding.names)) {
      if (token == nullptr)
        encode_section(encoding, range, *cache);
      else
        put_added(encoding, token->id, range, text.substr(range.begin, range.size()));
    }
    own.back(std::move(cache));
    return std::move(encoding.tokens);
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::vector<std::string> parts;
    for (const std::int32_t id : ids) {
      const std::string& text = piece(id);
      const bool shown = !skip_special || !special_[static_cast<std::size_t>(id)];
      if (shown && parts_.vocabulary.has(id)) parts.push_back(text);
    }
    if (parts_.decoder) parts_.decoder(parts);
    const std::string text = fmt::format("{}", fmt::join(parts, parts_.decoder ? "" : " "));
    return parts_.settings.clean_up_spaces ? clean_up_spaces(text) : text;
  }

  std::int64_t vocab_size() const override { return parts_.vocabulary.size(); }

  const std::string& piece(std::int32_t id) const override {
    require_input(id >= 0 && id < vocab_size(), "tokenizer: got id {}, expected 0 to {}", id,
                  vocab_size() - 1);
    return parts_.vocabulary.piece(id);
  }

  std::optional<std::int32_t> find(std::string_view piece) const override {
    return parts_.vocabulary.find(piece);
  }
  const SpecialIds& special() const override { return parts_.special; }

  std::string surface(std::int32_t id) const override {
    std::string_view text = piece(id);
    const std::string_view prefix = parts_.model->continuing_prefix(),
                           mark = parts_.pre_tokenizer.space_mark;
    if (!prefix.empty())
      return text.starts_with(prefix) ? std::string(text.substr(prefix.size()))
                                      : " " + std::string(text);
    if (const auto byte = byte_of_piece(text)) return std::string(1, *byte);
    std::string surface;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const int byte = byte_of_character(next_code_point(text, at));
      if (parts_.pre_tokenizer.byte_level && byte >= 0)
        surface += static_cast<char>(byte);
      else if (!mark.empty() && text.substr(begin).starts_with(mark))
        surface += ' ';
      else
        surface += text.substr(begin, at - begin);
    }
    return surface;
  }

  bool marks_words() const override {
    return parts_.pre_tokenizer.byte_level || !parts_.pre_tokenizer.space_mark.empty() ||
           !parts_.model->continuing_prefix().empty();
  }

  std::string definition() const override { return definition_of(parts_); }
  std::vector<TokenizerFile> files(std::int64_t max_length, bool token_types) const override {
    return written_files(parts_, max_length, token_types);
  }
  WrappedIds wrap(std::span<const std::int32_t> first) const override {
    return wrapped(parts_.post_processor.single, first, {});
  }
  WrappedIds wrap(std::span<const std::int32_t> first,
                  std::span<const std::int32_t> second) const override {
    return wrapped(parts_.post_processor.pair, first, second);
  }

 private:
  WrappedIds wrapped(const std::vector<TemplatePart>& form, std::span<const std::int32_t> first,
                     std::span<const std::int32_t> second) const {
    WrappedIds result = fill_template(form, first, second);
    if (!parts_.token_types) std::ranges::fill(result.type_ids, 0);
    return result;
  }

  // ---- Encoding ---------------------------------------------------------------------------------

  /// A text and the tokens found so far.
  struct Encoding {
    std::string_view text;
    SpecialNames names;
    std::vector<Token> tokens;
    std::uint32_t word = 0;
  };

  /// Moves an offset in the text by a number of characters, up to `limit`.
  static std::uint32_t forward(std::string_view text, std::uint32_t place, std::uint32_t characters,
                               std::uint32_t limit) {
    for (; characters > 0 && place < limit; --characters)
      place += static_cast<std::uint32_t>(utf8_length(text[place]));
    return std::min(place, limit);
  }
  /// Moves it back. Nothing if the text has fewer characters there: Hugging Face's library does not
  /// trim then.
  static std::optional<std::uint32_t> backward(std::string_view text, std::uint32_t place,
                                               std::uint32_t characters) {
    for (; characters > 0; --characters) {
      if (place == 0) return std::nullopt;
      do --place;
      while (is_utf8_continuation(text[place]));
    }
    return place;
  }

  void put(Encoding& encoding, std::int32_t id, ByteRange place, Spaces at_ends) const {
    const PostProcessor& post = parts_.post_processor;
    if (post.trims_offsets && (at_ends.leading > 0 || at_ends.trailing > 0)) {
      const bool first = encoding.tokens.empty() || place.begin == 0;
      const bool added_space = first && post.adds_prefix_space && at_ends.leading == 1;
      if (!added_space)
        place.begin = forward(encoding.text, place.begin, at_ends.leading, place.end);
      if (const auto end = backward(encoding.text, place.end, at_ends.trailing))
        place.end = std::max(*end, place.begin);
    }
    encoding.tokens.push_back({id, place.begin, place.end, encoding.word});
  }

  /// Puts an added token, whose text is a word.
  void put_added(Encoding& encoding, std::int32_t id, ByteRange place,
                 std::string_view text) const {
    put(encoding, id, place, spaces_of(text));
    ++encoding.word;
  }

  /// The spaces to trim from a token that encodes `part` of a word.
  Spaces spaces_at(std::int32_t id, std::string_view part) const {
    if (spaces_.empty()) return {};
    return id == unknown_as_text_ ? spaces_of(part) : spaces_[static_cast<std::size_t>(id)];
  }

  void encode_words(Encoding& encoding, AlignedText text, WordCache& cache) const {
    Words words;
    if (text.empty()) return;
    words.ranges.push_back({0, text.size()});
    words.text = std::move(text);
    if (parts_.pre_tokenizer.apply) parts_.pre_tokenizer.apply(words);
    // With split_special_tokens the pieces of transformers may be special tokens all the same.
    static const std::vector<bool> none;
    const std::vector<bool>& hidden =
        encoding.names == SpecialNames::text && !parts_.settings.splits_special ? hidden_ : none;
    const auto encode = [&](std::string_view word, std::vector<Token>& tokens) {
      parts_.model->encode(word, tokens, hidden);
    };
    for (std::size_t i = 0; i < words.ranges.size(); ++i) {
      const ByteRange word = words.ranges[i];
      for (const Token& token : cache.find(words[i], encode)) {
        const ByteRange part{std::min(word.begin + token.begin, word.end),
                             std::min(word.begin + token.end, word.end)};
        const std::uint32_t nowhere = words.text.origin(word).begin;
        put(encoding, token.id,
            part.size() > 0 ? words.text.origin(part) : ByteRange{nowhere, nowhere},
            spaces_at(token.id,
                      std::string_view(words.text.text()).substr(part.begin, part.size())));
      }
      ++encoding.word;
    }
  }

  /// Encodes a range between added tokens that are found in the original text.
  void encode_section(Encoding& encoding, ByteRange section, WordCache& cache) const {
    AlignedText text(encoding.text.substr(section.begin, section.size()), section.begin);
    if (parts_.normalizer) parts_.normalizer(text);
    const auto found = added_.split(text.text(), true, encoding.names);
    if (found.size() == 1 && found[0].token == nullptr)
      return encode_words(encoding, std::move(text), cache);
    for (const auto& [range, token] : found) {
      if (token == nullptr)
        encode_words(encoding, text.slice(range), cache);
      else
        put_added(encoding, token->id, text.origin(range),
                  std::string_view(text.text()).substr(range.begin, range.size()));
    }
  }

  TokenizerParts parts_;
  AddedTokens added_;
  std::vector<bool> special_;             // added tokens that decode skips
  std::vector<bool> hidden_;              // these, and pieces that are special without being added
  std::vector<Spaces> spaces_;            // of each piece, when offsets exclude spaces
  std::int32_t unknown_as_text_ = no_id;  // an unknown token with the spaces of its text
  mutable WordCaches caches_[2];          // by SpecialNames
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) {
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace nystrom
