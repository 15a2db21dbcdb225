#include "data/tokenizers/sentencepiece_json.h"

#include <utf8proc.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/added_tokens.h"
#include "data/tokenizers/pipeline/part_json.h"
#include "data/tokenizers/pipeline/unicode.h"
#include "data/tokenizers/pipeline/word_models.h"
#include "data/tokenizers/roberta_pieces.h"
#include "data/tokenizers/tokenizer.h"

namespace nystrom {
namespace {

using Json = nlohmann::json;
using Ranges = std::vector<std::pair<char32_t, char32_t>>;

constexpr float comma_penalty = 100;

// Python's str.isspace and SentencePiece's space.
Ranges spaces() {
  return {{0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
          {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
          {0x205F, 0x205F}, {0x2581, 0x2581}, {0x3000, 0x3000}};
}

/// Characters with a combining class.
Ranges accents() {
  Ranges ranges;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class == 0) continue;
    if (!ranges.empty() && ranges.back().second + 1 == c)
      ranges.back().second = c;
    else
      ranges.emplace_back(c, c);
  }
  return ranges;
}

Json replace(const char* kind, const std::string& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

/// A character class in Oniguruma's syntax: [\x{300}-\x{314}…].
std::string character_class(const Ranges& ranges) {
  std::string text = "[";
  for (const auto& [first, last] : ranges) {
    text += fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(first));
    if (last != first) text += fmt::format("-\\x{{{:X}}}", static_cast<std::uint32_t>(last));
  }
  return text + "]";
}

void replace_quotes_and_accents(bool accents_too, Json& steps) {
  steps.push_back(replace("String", "``", "\""));
  steps.push_back(replace("String", "''", "\""));
  if (!accents_too) return;
  steps.push_back({{"type", "NFKD"}});
  steps.push_back(replace("Regex", character_class(accents()), ""));
}

Json strip_ends() { return {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}; }

/// AlbertTokenizerFast differs in three ways, and each can change ids. It keeps spaces at the ends
/// and joins fewer kinds of them. Its StripAccents removes all marks, not only those with a
/// combining class. Its Precompiled cannot compose decomposed Korean again; NFC can.
Json albert_normalizer(const std::string& charsmap, const AlbertOptions& options) {
  Json steps = Json::array();
  steps.push_back(replace("Regex", character_class(spaces()) + "+", " "));
  steps.push_back(strip_ends());
  replace_quotes_and_accents(!options.keep_accents, steps);
  if (options.lower_case) steps.push_back({{"type", "Lowercase"}});
  if (!charsmap.empty()) {
    constexpr std::string_view decomposed_ga = "\xE1\x84\x80\xE1\x85\xA1", ga = "\xEA\xB0\x80";
    if (find_replacement(charsmap, decomposed_ga, CharsmapKey::longest) == ga)
      steps.push_back({{"type", "NFC"}});
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(charsmap)}});
  }
  steps.push_back(replace("Regex", " {2,}", " "));
  steps.push_back(strip_ends());
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json trained_normalizer_json(const TrainedNormalizer& options) {
  // Control characters, the soft hyphen, marks of direction, invisible operators.
  const Ranges removed = {{0x00, 0x08},     {0x0E, 0x1B},     {0x7F, 0x84},     {0x86, 0x9F},
                          {0xAD, 0xAD},     {0x200E, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x206F},
                          {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}};
  Ranges all = spaces();
  all.emplace_back(0x200B, 0x200B);  // between the words of Thai and Khmer
  Ranges others = all;
  others[1].second = 0x1F;
  Json steps = Json::array();
  steps.push_back(replace("Regex", character_class(removed), ""));
  // A single space stays as it is, which is faster than to replace it.
  steps.push_back(replace(
      "Regex", character_class(others) + character_class(all) + "*| " + character_class(all) + "+",
      " "));
  replace_quotes_and_accents(options.strip_accents, steps);
  steps.push_back({{"type", "NFKC"}});
  if (options.lower_case) steps.push_back({{"type", "Lowercase"}});
  steps.push_back(replace("Regex", " {2,}", " "));  // NFKC makes spaces of some signs
  steps.push_back(strip_ends());
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

/// Subtracts comma_penalty from the scores of pieces that join a comma to a digit, as transformers'
/// converter of ALBERT's models does.
void lower_comma_scores(SentencePieceModel& model) {
  if (model.kind != SentencePieceModel::Kind::unigram) return;
  for (SentencePiece& piece : model.pieces)
    if (piece.type == SentencePiece::Type::normal && joins_comma_to_digit(piece.text))
      piece.score -= comma_penalty;
}

std::string normalized(const TextNormalizer& normalizer, std::string_view text) {
  AlignedText aligned(text);
  normalizer(aligned);
  return aligned.text();
}

/// The library does not apply the model's normalization to user-defined pieces. Hugging Face's
/// tokenizers cannot do that. Throws an InputError for a piece that can appear in text and that
/// the charsmap would change.
void check_user_defined(const SentencePieceModel& model, const AlbertOptions& options,
                        const std::string& source) {
  const auto normalizer = [&](const std::string& charsmap) {
    const Json json = albert_normalizer(charsmap, options);
    return read_normalizer(JsonPart(json, source));
  };
  const auto before = normalizer(""), all = normalizer(model.charsmap);
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != SentencePiece::Type::user_defined ||
        normalized(before, piece.text) != piece.text)
      continue;
    const std::string made = normalized(all, piece.text);
    require_input(made == piece.text,
                  "{}: the user-defined piece '{}' becomes '{}' in normal text, where Hugging "
                  "Face's tokenizers miss it",
                  source, printable(piece.text), printable(made));
  }
}

/// The score that gives a user-defined piece the same precedence as in the library.
double user_defined_score(const SentencePiece& piece, float largest) {
  return static_cast<double>(static_cast<float>(piece.text.size()) * largest) - 0.1;
}

Json unigram(const SentencePieceModel& model, std::int32_t unknown) {
  /// The library starts from this positive value, so nearly every bonus is -0.1.
  float largest = std::numeric_limits<float>::min();
  for (const SentencePiece& piece : model.pieces)
    if (piece.type == SentencePiece::Type::normal) largest = std::max(largest, piece.score);
  Json vocabulary = Json::array();
  for (const SentencePiece& piece : model.pieces) {
    const bool user_defined = piece.type == SentencePiece::Type::user_defined;
    vocabulary.push_back({piece.text, user_defined ? user_defined_score(piece, largest)
                                                   : static_cast<double>(piece.score)});
  }
  return unigram_json(vocabulary, unknown);
}

/// Every way to build a piece from two others, the best first. The library merges any two
/// neighbours that form a piece.
Merges merges(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == SentencePiece::Type::normal)
      ids.emplace(model.pieces[id].text, id);
  std::vector<std::tuple<float, std::size_t, std::size_t>> found;  // −score, id, bytes of the left
  for (const auto& [text, id] : ids) {
    for (std::size_t left = 1; left < text.size(); ++left)
      if (ids.count(text.substr(0, left)) > 0 && ids.count(text.substr(left)) > 0)
        found.emplace_back(-model.pieces[id].score, id, left);
  }
  std::ranges::sort(found);
  Merges result;
  for (const auto& [score, id, left] : found)
    result.emplace_back(model.pieces[id].text.substr(0, left), model.pieces[id].text.substr(left));
  return result;
}

/// The special tokens by name, with their ids: all that the library never makes of a text.
struct Specials {
  std::vector<std::pair<std::string, std::size_t>> all;  // ordered by id
  std::int32_t unknown = 0;
};

Specials find_specials(const SentencePieceModel& model, const std::string& source) {
  Specials specials;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const std::string& text = model.pieces[id].text;
    const SentencePiece::Type type = model.pieces[id].type;
    const bool is_unknown = type == SentencePiece::Type::unknown;
    if (is_unknown) specials.unknown = static_cast<std::int32_t>(id);
    if (is_unknown || type == SentencePiece::Type::control || text == "[CLS]" || text == "[SEP]" ||
        text == "<pad>" || text == "[MASK]")
      specials.all.emplace_back(text, id);
  }
  for (const char* name : {"[CLS]", "[SEP]", "<pad>", "[MASK]"})
    require_input(
        std::ranges::find(specials.all, name, &std::pair<std::string, std::size_t>::first) !=
            specials.all.end(),
        "{}: the vocabulary has no piece '{}'; expected [CLS], [SEP], <pad> and [MASK], "
        "as ALBERT's has",
        source, name);
  return specials;
}

/// The mask token includes the space before it, so that "the [MASK] of" reads as three words.
Json added_tokens(const Specials& specials) {
  Json added = Json::array();
  for (const auto& [name, id] : specials.all)
    added.push_back(added_token_json({.content = name,
                                      .id = static_cast<std::int32_t>(id),
                                      .special = true,
                                      .lstrip = name == "[MASK]"}));
  return added;
}

Json post_processor(const Specials& specials) {
  const auto end = [&](const std::string& wanted) {
    for (const auto& [name, id] : specials.all)
      if (name == wanted) return Json::array({name, id});
    return Json();
  };
  return {{"type", "BertProcessing"}, {"cls", end("[CLS]")}, {"sep", end("[SEP]")}};
}

Json bpe(const SentencePieceModel& model, std::int32_t unknown) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) vocabulary[model.pieces[id].text] = id;
  return bpe_json(vocabulary, merges(model), model.pieces[static_cast<std::size_t>(unknown)].text);
}

std::string tokenizer_json(const SentencePieceModel& model, const Json& normalizer,
                           const std::string& source) {
  const Specials specials = find_specials(model, source);
  const bool is_bpe = model.kind == SentencePieceModel::Kind::bpe;
  return tokenizer_json_text(
      {{"added_tokens", added_tokens(specials)},
       {"normalizer", normalizer},
       {"pre_tokenizer", metaspace_json()},
       {"post_processor", post_processor(specials)},
       {"decoder", metaspace_json()},
       {"model", is_bpe ? bpe(model, specials.unknown) : unigram(model, specials.unknown)}});
}

}  // namespace

bool joins_comma_to_digit(std::string_view piece) {
  if (piece.size() < 2 || piece.back() != ',') return false;
  std::size_t end = piece.size() - 1;
  return category_bit_of(previous_character(piece, end)) == category_bit(UTF8PROC_CATEGORY_ND);
}

std::string albert_tokenizer_json(SentencePieceModel model, const AlbertOptions& options,
                                  const std::string& source) {
  require_input(model.kind == SentencePieceModel::Kind::unigram,
                "{}: is a BPE model, and ALBERT's are unigram models; save it as tokenizer.json "
                "once: AutoTokenizer.from_pretrained(…).save_pretrained(…)",
                source);
  find_specials(model, source);
  for (const SentencePiece& piece : model.pieces)
    require_input(piece.type != SentencePiece::Type::unused,
                  "{}: the piece '{}' is marked as unused, and Hugging Face's tokenizers would use "
                  "it; expected a model without such pieces",
                  source, printable(piece.text));
  check_user_defined(model, options, source);
  lower_comma_scores(model);
  return tokenizer_json(model, albert_normalizer(model.charsmap, options), source);
}

TextNormalizer trained_normalizer(const TrainedNormalizer& options) {
  const Json json = trained_normalizer_json(options);
  return read_normalizer(JsonPart(json, "the tokenizer's normalizer"));
}

std::string trained_tokenizer_json(SentencePieceModel model, const TrainedNormalizer& options) {
  lower_comma_scores(model);
  return tokenizer_json(model, trained_normalizer_json(options), "the trained tokenizer");
}

}  // namespace nystrom
