// A tokenizer without a vocabulary file: every byte except white space is a token. Words
// lie between white space.
#pragma once

#include "core/check.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {

class LetterTokenizer : public Tokenizer {
 public:
  static constexpr std::int32_t cls = 0, sep = 1, pad = 2, unk = 4;

  std::vector<Token> encode_with_offsets(std::string_view text,
                                         SpecialNames = SpecialNames::text) const override {
    std::vector<Token> tokens;
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < text.size(); ++i)
      if (text[i] == ' ' || text[i] == '\n')
        ++word;
      else
        tokens.push_back({static_cast<unsigned char>(text[i]), i, i + 1, word});
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const override {
    std::string text;
    for (const std::int32_t id : ids)
      if (!skip_special || !is_special(id)) text += piece(id);
    return text;
  }

  std::int64_t vocab_size() const override { return 256; }
  const std::string& piece(std::int32_t id) const override {
    return pieces_.at(static_cast<std::size_t>(id));
  }
  std::optional<std::int32_t> find(std::string_view piece) const override {
    return static_cast<unsigned char>(piece.at(0));
  }
  const SpecialIds& special() const override { return special_; }
  std::string surface(std::int32_t id) const override { return " " + piece(id); }
  bool marks_words() const override { return true; }
  std::string definition() const override { return "letters"; }
  std::vector<TokenizerFile> files(std::int64_t, bool) const override { return {}; }

  WrappedIds wrap(std::span<const std::int32_t> first) const override {
    WrappedIds result{{cls}, {}};
    result.ids.insert(result.ids.end(), first.begin(), first.end());
    result.ids.push_back(sep);
    result.type_ids.resize(result.ids.size());
    return result;
  }
  WrappedIds wrap(std::span<const std::int32_t> first,
                  std::span<const std::int32_t> second) const override {
    WrappedIds result = wrap(first);
    result.ids.insert(result.ids.end(), second.begin(), second.end());
    result.ids.push_back(sep);
    result.type_ids.resize(result.ids.size(), 1);
    return result;
  }

 private:
  static std::vector<std::string> make_pieces() {
    std::vector<std::string> pieces{"[", "]", "_", "?", "!"};  // cls, sep, pad, mask, unk
    for (int i = 5; i < 256; ++i) pieces.emplace_back(1, static_cast<char>(i));
    return pieces;
  }

  SpecialIds special_{cls, sep, pad, 3, unk};
  std::vector<std::string> pieces_ = make_pieces();
};

/// The letters of a row. Special tokens become [ ] and _.
inline std::string row_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  return tokenizer.decode(ids, false);
}

}  // namespace nystrom
