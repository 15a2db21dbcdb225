#include <algorithm>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/prefix_trie.h"
#include "data/tokenizers/pipeline/word_models.h"

namespace nystrom {
namespace {

constexpr double unknown_penalty = 10;  // subtracted from the score of the worst piece

class Unigram final : public WordModel {
 public:
  Unigram(Vocabulary pieces, std::vector<double> scores, std::optional<std::int32_t> unknown,
          bool byte_fallback)
      : WordModel(std::move(pieces)), scores_(std::move(scores)), byte_fallback_(byte_fallback) {
    unknown_ = unknown;
    std::vector<std::pair<std::string_view, std::int32_t>> entries;
    for (std::int32_t id = 0; id < vocabulary().size(); ++id)
      entries.emplace_back(vocabulary().piece(id), id);
    trie_ = PrefixTrie(std::move(entries));
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - unknown_penalty;
  }

  void encode(std::string_view word, std::vector<Token>& tokens,
              const std::vector<bool>& hidden) const override {
    std::vector<Token> path;  // from its end
    const std::vector<Node> nodes = best_paths(word, hidden);
    bool last_unknown = false;
    for (auto end = static_cast<std::uint32_t>(word.size()); end > 0; end = nodes[end].begin) {
      const Node& node = nodes[end];
      if (node.unknown && last_unknown)
        path.back().begin = node.begin;
      else
        path.push_back({node.unknown ? unknown_mark : node.id, node.begin, end});
      last_unknown = node.unknown;
    }
    for (auto token = path.rbegin(); token != path.rend(); ++token)
      put(word, *token, tokens, hidden);
  }
  bool writes_unknown_text() const override { return true; }

 private:
  static constexpr std::int32_t unknown_mark = -1;

  /// The best path that ends at a byte.
  struct Node {
    double score = 0;
    std::uint32_t begin = 0;  // start of its last piece
    std::int32_t id = 0;
    bool reached = false, unknown = false;
  };

  static void improve(Node& node, double score, std::uint32_t begin, std::int32_t id,
                      bool unknown) {
    if (!node.reached || score > node.score) node = {score, begin, id, true, unknown};
  }

  std::vector<Node> best_paths(std::string_view word, const std::vector<bool>& hidden) const {
    std::vector<Node> nodes(word.size() + 1);
    for (std::uint32_t begin = 0; begin < word.size();) {
      const auto length_of_one = static_cast<std::uint32_t>(utf8_length(word[begin]));
      const double so_far = nodes[begin].score;
      bool single = false;
      trie_.for_each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t id) {
        if (is_hidden(hidden, id)) return;
        // The unknown piece itself, when a text contains its name, is unknown too.
        improve(nodes[begin + length], scores_[static_cast<std::size_t>(id)] + so_far, begin, id,
                id == unknown_);
        single |= length == length_of_one;
      });
      if (!single) improve(nodes[begin + length_of_one], unknown_score_ + so_far, begin, 0, true);
      begin += length_of_one;
    }
    return nodes;
  }

  /// Puts a token of the path. An unknown one whose text is a piece after joining becomes that
  /// piece. Otherwise it becomes byte pieces if all of them exist, and the unknown piece if not.
  void put(std::string_view word, const Token& token, std::vector<Token>& tokens,
           const std::vector<bool>& hidden) const {
    const auto as = [&](std::int32_t id) { tokens.push_back({id, token.begin, token.end}); };
    if (token.id != unknown_mark) return as(token.id);
    const std::string_view text = word.substr(token.begin, token.end - token.begin);
    if (const auto piece = vocabulary().find(text); piece && !is_hidden(hidden, *piece))
      return as(*piece);
    const auto bytes = byte_fallback_ ? byte_pieces(vocabulary(), text) : std::nullopt;
    require_input(bytes || unknown_,
                  "the text holds what is no piece of the tokenizer, which has no unknown token");
    if (!bytes) return as(*unknown_);
    for (const std::int32_t id : *bytes) as(id);
  }

  std::vector<double> scores_;
  bool byte_fallback_;
  double unknown_score_ = 0;
  PrefixTrie trie_;
};

}  // namespace

std::unique_ptr<WordModel> read_unigram(const JsonPart& part) {
  const JsonPart list = part["vocab"];
  if (!list.value().is_array()) list.fail("expected a list of pieces with scores");
  if (list.value().empty()) list.fail("the vocabulary is empty");
  if (list.value().size() > max_pieces)
    list.fail(fmt::format("{} pieces, expected at most {}", list.value().size(), max_pieces));
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const nlohmann::json& each : list.value()) {
    const bool fits =
        each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_number();
    if (!fits)
      list.fail(fmt::format("element {} is no list of a piece and its score", scores.size()));
    const auto piece = each[0].get<std::string>();
    require_piece_size(piece, list);
    if (!vocabulary.add(piece, static_cast<std::int32_t>(scores.size())))
      list.fail(fmt::format("'{}' stands in it twice", printable(piece)));
    scores.push_back(each[1].get<double>());
  }
  std::optional<std::int32_t> unknown;
  if (const auto id = part.find("unk_id"))
    unknown = static_cast<std::int32_t>(id->integer(0, vocabulary.size() - 1));
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown,
                                   part.boolean_or("byte_fallback", false));
}

std::optional<std::vector<std::int32_t>> byte_pieces(const Vocabulary& vocabulary,
                                                     std::string_view text) {
  std::vector<std::int32_t> ids;
  for (const char byte : text) {
    const auto id = vocabulary.find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace nystrom
