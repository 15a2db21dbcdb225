#include "data/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/file_io.h"
#include "core/base/json.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"
#include "data/tokenizers/tokenizer_json.h"
#include "data/tokenizers/word_cache.h"

namespace nystrom {
namespace {

constexpr std::string_view word_mark = "\xE2\x96\x81";  // U+2581
constexpr float comma_penalty = 100;

SpecialIds find_special_ids(const SentencePieceModel& model, const StringMap<std::int32_t>& ids,
                            const std::string& source) {
  const auto find = [&](std::string_view name) {
    const auto found = ids.find(name);
    require_input(found != ids.end(),
                  "{}: the vocabulary has no piece '{}'; expected [CLS], [SEP], <pad> and [MASK], "
                  "as ALBERT's has",
                  source, name);
    return found->second;
  };
  const auto unknown = std::find_if(
      model.pieces.begin(), model.pieces.end(),
      [](const SentencePiece& piece) { return piece.type == SentencePiece::Type::unknown; });
  return {find("[CLS]"), find("[SEP]"), find("<pad>"), find("[MASK]"),
          static_cast<std::int32_t>(unknown - model.pieces.begin())};
}

/// Subtracts comma_penalty from the scores of the affected pieces, in the model and in the bytes
/// that the library reads.
void lower_comma_scores(SentencePieceModel& model, std::string& bytes) {
  if (model.kind != SentencePieceModel::Kind::unigram) return;
  for (SentencePiece& piece : model.pieces) {
    if (piece.type != SentencePiece::Type::normal || piece.score_offset == 0 ||
        !joins_comma_to_digit(piece.text))
      continue;
    piece.score -= comma_penalty;
    std::memcpy(bytes.data() + piece.score_offset, &piece.score, sizeof(piece.score));
  }
}

/// The library does not apply the model's normalization to user-defined pieces. Hugging Face's
/// tokenizers cannot do that. Throws an InputError for a piece that can appear in text and that the
/// normalization would change.
void check_user_defined(const SentencePieceModel& model, const NormalizerOptions& options,
                        const std::string& source) {
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != SentencePiece::Type::user_defined ||
        normalize(piece.text, options).text != piece.text)
      continue;
    std::string made;
    for (std::size_t at = 0; at < piece.text.size(); at += utf8_length(piece.text[at]))
      made += Charsmap::replacement(
          model.charsmap, std::string_view(piece.text).substr(at, utf8_length(piece.text[at])));
    require_input(made == piece.text,
                  "{}: the user-defined piece '{}' becomes '{}' in normal text, where Hugging "
                  "Face's tokenizers miss it",
                  source, printable(piece.text), printable(made));
  }
}

/// The end offset in the source of the character that produced byte `i` of the normalized text.
std::uint32_t source_end(const NormalText& normal, std::size_t i, std::string_view source) {
  const std::size_t begin = normal.origin[i];
  const bool two_quotes = normal.text[i] == '"' && (source[begin] == '`' || source[begin] == '\'');
  return static_cast<std::uint32_t>(begin + (two_quotes ? 2 : utf8_length(source[begin])));
}

}  // namespace

bool joins_comma_to_digit(std::string_view piece) {
  if (piece.size() < 2 || piece.back() != ',') return false;
  std::size_t start = piece.size() - 2;
  while (start > 0 && is_utf8_continuation(piece[start])) --start;
  return utf8proc_category(static_cast<utf8proc_int32_t>(next_code_point(piece, start))) ==
         UTF8PROC_CATEGORY_ND;
}

struct SentencePieceTokenizer::State {
  std::string bytes;
  SentencePieceModel model;
  NormalizerOptions options;
  SpecialIds special{};
  StringMap<std::int32_t> ids;
  std::vector<bool> starts_word;
  sentencepiece::SentencePieceProcessor processor;
  WordCaches caches;

  void encode_word(std::string_view word, std::vector<Token>& tokens) const {
    sentencepiece::ImmutableSentencePieceText result;
    const auto status = processor.Encode({word.data(), word.size()}, result.mutable_proto());
    if (!status.ok()) throw Error("SentencePiece: " + status.ToString());
    for (std::size_t i = 0; i < result.pieces_size(); ++i) {
      const auto piece = result.pieces(static_cast<int>(i));
      tokens.push_back({static_cast<std::int32_t>(piece.id()), piece.begin(), piece.end()});
    }
  }

  /// Calls use(token, offset of its word in `normal`) for every token of `normal`.
  template <class Use>
  void for_each_token(std::string_view normal, WordCache& cache, const Use& use) const {
    for (std::size_t start = 0; start < normal.size();) {
      const std::size_t end = std::min(normal.find(' ', start), normal.size());
      if (end > start) {
        const auto encode = [&](std::string_view word, std::vector<Token>& tokens) {
          encode_word(word, tokens);
        };
        for (const Token& token : cache.find(normal.substr(start, end - start), encode))
          use(token, start);
      }
      start = end + 1;
    }
  }

  /// Finds the first name of a special token in `text` at or after `from`. Returns its offset and
  /// id; the offset is npos when there is none.
  std::pair<std::size_t, std::int32_t> find_name(std::string_view text, std::size_t from) const {
    std::pair<std::size_t, std::int32_t> first{text.npos, 0};
    for (const std::int32_t id :
         {special.cls, special.sep, special.pad, special.mask, special.unk}) {
      const std::size_t place = text.find(model.pieces[static_cast<std::size_t>(id)].text, from);
      if (place < first.first) first = {place, id};
    }
    return first;
  }

  /// Calls plain(begin, end) for each range of ordinary text, and named(id, begin, end) for each
  /// name of a special token.
  template <class Plain, class Named>
  void split_at_names(std::string_view text, SpecialNames names, const Plain& plain,
                      const Named& named) const {
    require_input(is_valid_utf8(text), "the text is not valid UTF-8 at byte {}",
                  valid_utf8_prefix(text));
    std::size_t start = 0;
    while (names == SpecialNames::tokens) {
      const auto [place, id] = find_name(text, start);
      if (place == text.npos) break;
      plain(start, place);
      const std::size_t end = place + model.pieces[static_cast<std::size_t>(id)].text.size();
      named(id, place, end);
      start = end;
    }
    plain(start, text.size());
  }
};

SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceTokenizer&&) noexcept = default;
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

SentencePieceTokenizer SentencePieceTokenizer::parse(std::string bytes, const std::string& source,
                                                     const NormalizerOptions& options) {
  auto state = std::make_unique<State>();
  state->model = scan_sentencepiece(bytes, source);
  state->options = options;
  for (const SentencePiece& piece : state->model.pieces) {
    state->ids.emplace(piece.text, static_cast<std::int32_t>(state->ids.size()));
    state->starts_word.push_back(piece.text.starts_with(word_mark) ||
                                 piece.type == SentencePiece::Type::control ||
                                 piece.type == SentencePiece::Type::unknown);
  }
  state->special = find_special_ids(state->model, state->ids, source);
  check_user_defined(state->model, options, source);
  require_writable(state->model, source);
  std::string adjusted = bytes;
  lower_comma_scores(state->model, adjusted);
  const auto status = state->processor.LoadFromSerializedProto({adjusted.data(), adjusted.size()});
  require_input(status.ok(), "{}: SentencePiece refuses the model: {}", source,
                printable(status.ToString()));
  state->bytes = std::move(bytes);
  return SentencePieceTokenizer(std::move(state));
}

SentencePieceTokenizer SentencePieceTokenizer::open(const std::filesystem::path& file,
                                                    const NormalizerOptions& options) {
  return parse(read_text_file(file, max_sentencepiece_bytes), printable_path(file), options);
}

SentencePieceTokenizer SentencePieceTokenizer::open_beside_config(
    const std::filesystem::path& file) {
  NormalizerOptions options;
  const auto config_file = file.parent_path() / "tokenizer_config.json";
  if (std::filesystem::exists(config_file)) {
    const auto config = read_json_file(config_file);
    const auto read = [&](const char* key, bool& value) {
      if (!config.is_object() || !config.contains(key)) return;
      require_input(config[key].is_boolean(), "{}: '{}' is {}, expected true or false",
                    printable_path(config_file), key, config[key].type_name());
      value = config[key].get<bool>();
    };
    read("do_lower_case", options.lower_case);
    read("keep_accents", options.keep_accents);
  }
  return open(file, options);
}

SentencePieceTokenizer SentencePieceTokenizer::open_folder(const std::filesystem::path& folder) {
  return open_beside_config(folder / "spiece.model");
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view text,
                                                         SpecialNames names) const {
  std::vector<std::int32_t> ids;
  auto cache = state_->caches.borrow();
  state_->split_at_names(
      text, names,
      [&](std::size_t begin, std::size_t end) {
        const NormalText normal = normalize(text.substr(begin, end - begin), state_->options);
        state_->for_each_token(normal.text, *cache,
                               [&](const Token& token, std::size_t) { ids.push_back(token.id); });
      },
      [&](std::int32_t id, std::size_t, std::size_t) { ids.push_back(id); });
  state_->caches.back(std::move(cache));
  return ids;
}

std::vector<Token> SentencePieceTokenizer::encode_with_offsets(std::string_view text,
                                                               SpecialNames names) const {
  std::vector<Token> tokens;
  auto cache = state_->caches.borrow();
  const auto plain = [&](std::size_t begin, std::size_t end) {
    const std::string_view part = text.substr(begin, end - begin);
    const NormalText normal = normalize(part, state_->options, true);
    state_->for_each_token(normal.text, *cache, [&](const Token& token, std::size_t word) {
      const std::size_t first = word + token.begin, last = word + token.end;
      // A word mark without text has the offset of the text after it.
      const std::uint32_t from = first < normal.origin.size()
                                     ? normal.origin[first]
                                     : static_cast<std::uint32_t>(part.size());
      const std::uint32_t to = last > first ? source_end(normal, last - 1, part) : from;
      tokens.push_back({token.id, static_cast<std::uint32_t>(begin) + from,
                        static_cast<std::uint32_t>(begin) + to});
    });
  };
  state_->split_at_names(
      text, names, plain, [&](std::int32_t id, std::size_t begin, std::size_t end) {
        tokens.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      });
  state_->caches.back(std::move(cache));
  return tokens;
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids,
                                           bool skip_special) const {
  std::string text;
  bool first = true;  // a mark in the first token is not a space
  for (const std::int32_t id : ids) {
    std::string_view rest = piece(id);
    if (skip_special && is_special(id)) continue;
    for (std::size_t mark = rest.find(word_mark); mark != rest.npos; mark = rest.find(word_mark)) {
      text += rest.substr(0, mark);
      if (!first) text += ' ';
      rest.remove_prefix(mark + word_mark.size());
    }
    text += rest;
    first = false;
  }
  return text;
}

std::int64_t SentencePieceTokenizer::vocab_size() const {
  return static_cast<std::int64_t>(state_->model.pieces.size());
}

const std::string& SentencePieceTokenizer::piece(std::int32_t id) const {
  require(id >= 0 && id < vocab_size(), "tokenizer: got id {}, expected 0 to {}", id,
          vocab_size() - 1);
  return state_->model.pieces[static_cast<std::size_t>(id)].text;
}

std::optional<std::int32_t> SentencePieceTokenizer::find(std::string_view piece) const {
  const auto found = state_->ids.find(piece);
  if (found == state_->ids.end()) return std::nullopt;
  return found->second;
}

const SpecialIds& SentencePieceTokenizer::special() const { return state_->special; }

bool SentencePieceTokenizer::starts_word(std::int32_t id) const {
  require(id >= 0 && id < vocab_size(), "tokenizer: got id {}, expected 0 to {}", id,
          vocab_size() - 1);
  return state_->starts_word[static_cast<std::size_t>(id)];
}

std::string SentencePieceTokenizer::definition() const {
  return fmt::format("{} {} ", state_->options.lower_case, state_->options.keep_accents) +
         state_->bytes;
}

std::vector<TokenizerFile> SentencePieceTokenizer::files(std::int64_t max_length) const {
  return sentencepiece_files(*this, max_length);
}

const SentencePieceModel& SentencePieceTokenizer::model() const { return state_->model; }
const std::string& SentencePieceTokenizer::bytes() const { return state_->bytes; }
const NormalizerOptions& SentencePieceTokenizer::options() const { return state_->options; }

}  // namespace nystrom
