#include <algorithm>
#include <unordered_map>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/word_models.h"

namespace nystrom {
namespace {

struct BpeOptions {
  /// Empty: characters without a piece are dropped. Not a piece itself: such characters are
  /// rejected.
  std::string unknown;
  std::string continuing_prefix, end_suffix;
  bool fuse_unknown = false;  // adjacent unknown characters form one token
  /// Whether a character without a piece is encoded as pieces <0x00> to <0xFF>, when they exist.
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a piece becomes that piece without merges
};

class Bpe final : public WordModel {
 public:
  Bpe(Vocabulary pieces, const Merges& merges, const BpeOptions& options, const std::string& where)
      : WordModel(std::move(pieces)), options_(options) {
    if (!options.unknown.empty()) unknown_ = vocabulary().find(options.unknown);
    merges_.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string &left = merges[rank].first, &right = merges[rank].second;
      const auto id_of = [&](const std::string& piece) {
        const auto id = vocabulary().find(piece);
        require_input(id.has_value(),
                      "{}: merge {} ('{}' and '{}'): '{}' is no piece of the vocabulary", where,
                      rank, printable(left), printable(right), printable(piece));
        return *id;
      };
      const std::int32_t first = id_of(left), second = id_of(right);
      require_input(right.size() >= options.continuing_prefix.size(),
                    "{}: merge {} ('{}' and '{}'): '{}' is shorter than the prefix '{}'", where,
                    rank, printable(left), printable(right), printable(right),
                    printable(options.continuing_prefix));
      merges_[key(first, second)] = {static_cast<std::uint32_t>(rank),
                                     id_of(left + right.substr(options.continuing_prefix.size()))};
    }
  }

  void encode(std::string_view word, std::vector<Token>& tokens,
              const std::vector<bool>& hidden) const override {
    if (options_.ignore_merges) {
      if (const auto id = vocabulary().find(word); id && !is_hidden(hidden, *id)) {
        tokens.push_back({*id, 0, static_cast<std::uint32_t>(word.size())});
        return;
      }
    }
    std::vector<Symbol> symbols = symbols_of(word);
    merge(symbols, hidden);
    std::uint32_t place = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.length == 0) continue;
      tokens.push_back({symbol.id, place, place + symbol.length});
      place += symbol.length;
    }
  }
  std::string_view continuing_prefix() const override { return options_.continuing_prefix; }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  /// A piece of the word in a linked list. Its length is 0 after a merge into the symbol before it.
  struct Symbol {
    std::int32_t id;
    std::uint32_t length;  // in bytes
    std::uint32_t previous, next;
  };

  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };

  /// A merge that may still be possible. The heap's first candidate has the lowest rank and, among
  /// equal ranks, the leftmost position.
  struct Candidate {
    std::uint32_t rank, left;
    std::int32_t id;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }

  static void add(std::vector<Symbol>& symbols, std::int32_t id, std::uint32_t length) {
    const auto index = static_cast<std::uint32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({id, length, index > 0 ? index - 1 : none, none});
  }

  /// The piece of a character, with the prefix or suffix of its position.
  std::string piece_of(std::string_view character, bool first, bool last) const {
    std::string piece = first ? "" : options_.continuing_prefix;
    piece += character;
    if (last) piece += options_.end_suffix;
    return piece;
  }

  std::vector<Symbol> symbols_of(std::string_view word) const {
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    std::uint32_t unknown_bytes = 0;  // size of the unknown text that is not a symbol yet
    const auto flush_unknown = [&] {
      if (unknown_bytes > 0) add(symbols, *unknown_, unknown_bytes);
      unknown_bytes = 0;
    };
    const bool plain = options_.continuing_prefix.empty() && options_.end_suffix.empty();
    for (std::size_t begin = 0; begin < word.size();) {
      const std::string_view character = word.substr(begin, utf8_length(word[begin]));
      const bool first = begin == 0;
      begin += character.size();
      const std::string written = plain ? "" : piece_of(character, first, begin == word.size());
      const std::string_view piece = plain ? character : written;
      if (const auto id = vocabulary().find(piece)) {
        flush_unknown();
        add(symbols, *id, static_cast<std::uint32_t>(character.size()));
        continue;
      }
      if (const auto bytes =
              options_.byte_fallback ? byte_pieces(vocabulary(), piece) : std::nullopt) {
        for (const std::int32_t id : *bytes) add(symbols, id, 1);
        continue;
      }
      if (options_.unknown.empty()) continue;
      if (!unknown_) refuse_unknown(options_.unknown);
      if (!options_.fuse_unknown) flush_unknown();
      unknown_bytes += static_cast<std::uint32_t>(character.size());
    }
    flush_unknown();
    return symbols;
  }

  void propose(const std::vector<Symbol>& symbols, std::uint32_t left,
               const std::vector<bool>& hidden, std::vector<Candidate>& heap) const {
    if (left == none || symbols[left].next == none) return;
    const auto found = merges_.find(key(symbols[left].id, symbols[symbols[left].next].id));
    if (found == merges_.end() || is_hidden(hidden, found->second.id)) return;
    heap.push_back({found->second.rank, left, found->second.id});
    std::push_heap(heap.begin(), heap.end());
  }

  void merge(std::vector<Symbol>& symbols, const std::vector<bool>& hidden) const {
    std::vector<Candidate> heap;
    for (std::uint32_t i = 0; i < symbols.size(); ++i) propose(symbols, i, hidden, heap);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[best.left];
      if (left.length == 0 || left.next == none) continue;
      Symbol& right = symbols[left.next];
      // A candidate may be outdated: the pair at its position must still give the same piece.
      const auto found = merges_.find(key(left.id, right.id));
      if (found == merges_.end() || found->second.id != best.id) continue;
      left.id = best.id;
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (left.next != none) symbols[left.next].previous = best.left;
      propose(symbols, left.previous, hidden, heap);
      propose(symbols, best.left, hidden, heap);
    }
  }

  BpeOptions options_;
  std::unordered_map<std::uint64_t, Merge> merges_;
};

/// Reads merges. Each is a list of two pieces, or a string with a space between them.
Merges read_merges(const JsonPart& part) {
  Merges merges;
  if (!part.value().is_array()) part.fail("expected a list");
  for (const nlohmann::json& each : part.value()) {
    if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string()) {
      merges.emplace_back(each[0].get<std::string>(), each[1].get<std::string>());
      continue;
    }
    const std::string text = each.is_string() ? each.get<std::string>() : "";
    if (text.starts_with("#version")) continue;  // the first line of a merges.txt
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos)
      part.fail(fmt::format(
          "merge {} is {}, expected two pieces", merges.size(),
          printable(each.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60)));
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

}  // namespace

std::unique_ptr<WordModel> read_bpe(const JsonPart& part) {
  if (const auto dropout = part.find("dropout"); dropout && dropout->number() != 0)
    dropout->fail("dropout of merges is not supported");
  BpeOptions options;
  options.unknown = part.text_or("unk_token", "");
  if (const auto unknown = part.find("unk_token"); unknown && options.unknown.empty())
    unknown->fail("is empty, and names no piece; expected a piece, or null for none");
  options.continuing_prefix = part.text_or("continuing_subword_prefix", "");
  options.end_suffix = part.text_or("end_of_word_suffix", "");
  options.fuse_unknown = part.boolean_or("fuse_unk", false);
  options.byte_fallback = part.boolean_or("byte_fallback", false);
  options.ignore_merges = part.boolean_or("ignore_merges", false);
  return std::make_unique<Bpe>(Vocabulary::read(part["vocab"]), read_merges(part["merges"]),
                               options, part.where());
}

}  // namespace nystrom
