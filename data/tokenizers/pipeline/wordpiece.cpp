#include <algorithm>

#include "core/base/utf8.h"
#include "data/tokenizers/pipeline/prefix_trie.h"
#include "data/tokenizers/pipeline/word_models.h"

namespace nystrom {
namespace {

class WordPiece final : public WordModel {
 public:
  WordPiece(Vocabulary pieces, const WordPieceOptions& options)
      : WordModel(std::move(pieces)),
        options_(options),
        unknown_(vocabulary().find(options.unknown)) {
    std::vector<std::pair<std::string_view, std::int32_t>> first, continuing;
    for (std::int32_t id = 0; id < vocabulary().size(); ++id) {
      const std::string_view piece = vocabulary().piece(id);
      first.emplace_back(piece, id);
      if (piece.starts_with(options.prefix))
        continuing.emplace_back(piece.substr(options.prefix.size()), id);
    }
    first_ = PrefixTrie(std::move(first));
    continuing_ = PrefixTrie(std::move(continuing));
  }

  void encode(std::string_view word, std::vector<Token>& tokens,
              const std::vector<bool>& hidden) const override {
    const std::size_t before = tokens.size();
    const auto end_of_word = static_cast<std::uint32_t>(word.size());
    const auto is_first_byte = [](char byte) { return !is_utf8_continuation(byte); };
    const bool fits =
        word.size() <= static_cast<std::size_t>(options_.max_characters) ||
        std::count_if(word.begin(), word.end(), is_first_byte) <= options_.max_characters;
    for (std::uint32_t begin = 0; fits && begin < end_of_word;) {
      Token longest{0, begin, begin};
      (begin == 0 ? first_ : continuing_)
          .for_each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t id) {
            if (!is_hidden(hidden, id))
              longest = {id, begin, begin + static_cast<std::uint32_t>(length)};
          });
      if (longest.end == begin) break;
      tokens.push_back(longest);
      begin = longest.end;
    }
    if (tokens.size() > before && tokens.back().end == end_of_word) return;
    tokens.resize(before);
    if (!unknown_) refuse_unknown(options_.unknown);
    tokens.push_back({*unknown_, 0, end_of_word});
  }
  std::optional<std::int32_t> unknown() const override { return unknown_; }
  std::string_view continuing_prefix() const override { return options_.prefix; }

 private:
  WordPieceOptions options_;
  std::optional<std::int32_t> unknown_;
  PrefixTrie first_, continuing_;
};

}  // namespace

std::unique_ptr<WordModel> wordpiece_model(Vocabulary vocabulary, const WordPieceOptions& options) {
  return std::make_unique<WordPiece>(std::move(vocabulary), options);
}

}  // namespace nystrom
