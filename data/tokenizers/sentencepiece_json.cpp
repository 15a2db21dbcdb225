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

Json precompiled(const std::string& charsmap) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", base64(charsmap)}};
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
    steps.push_back(precompiled(charsmap));
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

/// A tokenizer that marks spaces. `added` are its added tokens, ordered by id. `cls` and `sep`,
/// which are among them, stand around texts by the post-processor.
std::string tokenizer_json(const std::vector<AddedToken>& added, const Json& normalizer,
                           Json post_processor, const char* cls, const char* sep,
                           const Json& model) {
  Json tokens = Json::array();
  for (const AddedToken& token : added) {
    tokens.push_back(added_token_json(token));
    if (token.content == cls) post_processor["cls"] = Json::array({token.content, token.id});
    if (token.content == sep) post_processor["sep"] = Json::array({token.content, token.id});
  }
  return tokenizer_json_text({{"added_tokens", tokens},
                              {"normalizer", normalizer},
                              {"pre_tokenizer", metaspace_json()},
                              {"post_processor", post_processor},
                              {"decoder", metaspace_json()},
                              {"model", model}});
}

// ---- ALBERT's special tokens --------------------------------------------------------------------

/// All that the library never makes of a text.
struct Specials {
  std::vector<AddedToken> all;  // ordered by id
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
      // The mask token includes the space before it, so that "the [MASK] of" reads as three words.
      specials.all.push_back({.content = text,
                              .id = static_cast<std::int32_t>(id),
                              .special = true,
                              .lstrip = text == "[MASK]"});
  }
  for (const char* name : {"[CLS]", "[SEP]", "<pad>", "[MASK]"})
    require_input(std::ranges::find(specials.all, name, &AddedToken::content) != specials.all.end(),
                  "{}: the vocabulary has no piece '{}'; expected [CLS], [SEP], <pad> and [MASK], "
                  "as ALBERT's has",
                  source, name);
  return specials;
}

Json bpe(const SentencePieceModel& model, std::int32_t unknown) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) vocabulary[model.pieces[id].text] = id;
  return bpe_json(vocabulary, merges(model), model.pieces[static_cast<std::size_t>(unknown)].text);
}

std::string albert_json(const SentencePieceModel& model, const Json& normalizer,
                        const std::string& source) {
  const Specials specials = find_specials(model, source);
  const bool is_bpe = model.kind == SentencePieceModel::Kind::bpe;
  return tokenizer_json(specials.all, normalizer, {{"type", "BertProcessing"}}, "[CLS]", "[SEP]",
                        is_bpe ? bpe(model, specials.unknown) : unigram(model, specials.unknown));
}

// ---- RoBERTa's special tokens -------------------------------------------------------------------

/// Pieces with their scores, indexed by id.
using Scores = std::vector<std::pair<std::string, double>>;

Scores in_order(const SentencePieceModel& model, bool is_camembert) {
  Scores scores = is_camembert ? Scores{{"<s>NOTUSED", 0},
                                        {"<pad>", 0},
                                        {"</s>NOTUSED", 0},
                                        {"<unk>", 0},
                                        {"<unk>NOTUSED", -100}}
                               : Scores{{"<s>", 0}, {"<pad>", 0}, {"</s>", 0}, {"<unk>", 0}};
  for (std::size_t i = is_camembert ? 1 : 3; i < model.pieces.size(); ++i)
    scores.emplace_back(model.pieces[i].text, model.pieces[i].score);
  scores.emplace_back("<mask>", 0);
  return scores;
}

/// Special tokens, and pieces that the text itself may not cut.
std::vector<AddedToken> added_tokens(const SentencePieceModel& model, const Scores& scores,
                                     bool is_camembert) {
  const std::size_t shift = is_camembert ? 4 : 1,
                    front = is_camembert ? 7 : 4;  // up to <unk> or the model's own </s>
  std::vector<AddedToken> added;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const bool in_model = id >= shift && id - shift < model.pieces.size();
    const auto type = in_model ? model.pieces[id - shift].type : SentencePiece::Type::normal;
    const bool mask = id + 1 == scores.size();
    const bool control = id < front || mask || type == SentencePiece::Type::control;
    if (control || type == SentencePiece::Type::user_defined)
      added.push_back({.content = scores[id].first,
                       .id = static_cast<std::int32_t>(id),
                       .special = control,
                       .lstrip = mask});
  }
  return added;
}

Json roberta_normalizer(const SentencePieceModel& model) {
  Json steps = Json::array();
  if (!model.charsmap.empty()) steps.push_back(precompiled(model.charsmap));
  steps.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  steps.push_back(replace("Regex", " {2,}", "\xE2\x96\x81"));
  return {{"type", "Sequence"}, {"normalizers", steps}};
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
  return albert_json(model, albert_normalizer(model.charsmap, options), source);
}

TextNormalizer trained_normalizer(const TrainedNormalizer& options) {
  const Json json = trained_normalizer_json(options);
  return read_normalizer(JsonPart(json, "the tokenizer's normalizer"));
}

std::string trained_tokenizer_json(SentencePieceModel model, const TrainedNormalizer& options) {
  lower_comma_scores(model);
  return albert_json(model, trained_normalizer_json(options), "the trained tokenizer");
}

bool has_roberta_pieces(const SentencePieceModel& model) {
  const auto& pieces = model.pieces;
  return pieces.size() >= 3 && pieces[0].text == "<unk>" && pieces[1].text == "<s>" &&
         pieces[2].text == "</s>";
}

std::string roberta_tokenizer_json(const SentencePieceModel& model, bool is_camembert,
                                   const std::string& source) {
  require_input(model.kind == SentencePieceModel::Kind::unigram,
                "{}: is a BPE model; XLM-RoBERTa and CamemBERT have unigram models", source);
  for (std::size_t i = 3; i < model.pieces.size(); ++i)
    require_input(model.pieces[i].text != "<mask>" && model.pieces[i].text != "<pad>",
                  "{}: has a piece '{}', which transformers adds itself", source,
                  model.pieces[i].text);
  const Scores scores = in_order(model, is_camembert);
  Json vocabulary = Json::array();
  for (const auto& [text, score] : scores) vocabulary.push_back({text, score});
  return tokenizer_json(
      added_tokens(model, scores, is_camembert), roberta_normalizer(model),
      {{"type", "RobertaProcessing"}, {"trim_offsets", false}, {"add_prefix_space", false}}, "<s>",
      "</s>", unigram_json(vocabulary, 3));
}

std::string base64(std::string_view bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (int k = 3; k >= 0; --k) text += digits[group >> (6 * k) & 63];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - padding, padding, padding, '=');
}

}  // namespace nystrom
