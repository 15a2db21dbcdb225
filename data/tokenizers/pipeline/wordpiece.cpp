#include <limits>

#include "core/base/json_part.h"
#include "core/base/utf8.h"
#include "data/tokenizers/pipeline/prefix_trie.h"
#include "data/tokenizers/pipeline/word_models.h"

namespace nystrom {
namespace {

class WordPiece final : public WordModel {
 public:
  WordPiece(Vocabulary pieces, std::string unknown, std::string prefix, std::int64_t max_characters)
      : WordModel(std::move(pieces)),
        unknown_name_(std::move(unknown)),
        prefix_(std::move(prefix)),
        max_characters_(max_characters) {
    unknown_ = vocabulary().find(unknown_name_);
    std::vector<std::pair<std::string_view, std::int32_t>> first, continuing;
    for (std::int32_t id = 0; id < vocabulary().size(); ++id) {
      const std::string_view piece = vocabulary().piece(id);
      first.emplace_back(piece, id);
      if (piece.starts_with(prefix_)) continuing.emplace_back(piece.substr(prefix_.size()), id);
    }
    first_ = PrefixTrie(std::move(first));
    continuing_ = PrefixTrie(std::move(continuing));
  }

  void encode(std::string_view word, std::vector<Token>& tokens,
              const std::vector<bool>& hidden) const override {
    const std::size_t before = tokens.size();
    const auto end_of_word = static_cast<std::uint32_t>(word.size());
    const bool fits = word.size() <= max_characters_ || count_characters(word) <= max_characters_;
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
    if (!unknown_) refuse_unknown(unknown_name_);
    tokens.push_back({*unknown_, 0, end_of_word});
  }
  std::string_view continuing_prefix() const override { return prefix_; }

 private:
  std::string unknown_name_, prefix_;
  std::int64_t max_characters_;
  PrefixTrie first_, continuing_;
};

}  // namespace

std::unique_ptr<WordModel> read_wordpiece(const JsonPart& part) {
  const std::string unknown = part.text_or("unk_token", "[UNK]"),
                    prefix = part.text_or("continuing_subword_prefix", "##");
  const auto most = part.find("max_input_chars_per_word");
  const std::int64_t max_characters =
      most ? most->integer(1, std::numeric_limits<std::int32_t>::max()) : 100;
  return std::make_unique<WordPiece>(Vocabulary::read(part["vocab"]), unknown, prefix,
                                     max_characters);
}

}  // namespace nystrom
