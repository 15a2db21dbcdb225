// The preparation of a sample from which a model learns: the choice of masked tokens and their
// replacement, and the exchange of two segments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/batch.h"

namespace nystrom {

/// Spans of neighbouring tokens or words that are masked together. Their lengths follow the
/// geometric distribution with this mean, cut to `max`.
struct SpanConfig {
  std::optional<double> mean{};
  std::int64_t max = 10;
  bool operator==(const SpanConfig&) const = default;
};

template <class V>
void fields(V& v, SpanConfig& c) {
  v(c.mean, "mean",
    "mean length of the spans before max cuts them, drawn from the geometric distribution; null: "
    "no spans",
    at_least(1));
  v(c.max, "max", "longest span", at_least(1));
}

/// The `masking` section of a run.
struct MaskingConfig {
  Ramp probability = 0.15;
  double mask = 0.8;
  double random = 0.1;
  bool whole_word = false;
  SpanConfig span{};
  bool sentence_order = false;
  bool operator==(const MaskingConfig&) const = default;
};

template <class V>
void fields(V& v, MaskingConfig& c) {
  v(c.probability, "probability",
    "share of a sequence's tokens, or of the rows of features, that are masked; or shares at "
    "steps, linear between them: {0: 0.3, end: 0.15}. Validation has the last",
    positive_probability);
  v(c.mask, "mask", "share of these that are replaced by the mask token", probability);
  v(c.random, "random",
    "share of these that are replaced by a random token; the rest stays unchanged", probability);
  v(c.whole_word, "whole_word", "choose whole words instead of tokens");
  v(c.span, "span", "choose neighbouring tokens together, or neighbouring words with whole_word");
  v(c.sentence_order, "sentence_order",
    "also predict whether the two segments of a sequence stand as in the text or are swapped");
}

/// The most tokens of a word that are selected together; longer words are cut.
inline constexpr std::size_t max_word_tokens = 10;

/// The properties of a vocabulary that masking needs: special ids, which are never selected or
/// drawn, and the text of each id.
class MaskingTable {
 public:
  /// `surfaces` are the texts of all ids (Tokenizer::surface). They may be missing unless whole
  /// words are masked.
  MaskingTable(std::int64_t vocab_size, std::int64_t mask_id, std::span<const std::int64_t> special,
               std::vector<std::string> surfaces = {});

  std::int64_t mask_id() const { return mask_id_; }
  bool is_special(std::int64_t id) const { return special_[static_cast<std::size_t>(id)] != 0; }
  /// The text of an id; a space in front starts a word.
  const std::string& surface(std::int64_t id) const {
    return surfaces_[static_cast<std::size_t>(id)];
  }
  /// Whether the table has the texts.
  bool knows_words() const { return !surfaces_.empty(); }
  /// All ids that are not special.
  const std::vector<std::int64_t>& ordinary() const { return ordinary_; }

 private:
  std::int64_t mask_id_;
  std::vector<std::uint8_t> special_;
  std::vector<std::string> surfaces_;
  std::vector<std::int64_t> ordinary_;
};

/// The key of the random draw. Batches and ranks do not influence it.
struct MaskingKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;   ///< evaluation uses epoch 0
  std::uint64_t sample = 0;  ///< the sample's number in the data set
};

/// Positions begin … end − 1 that are selected together.
struct MaskingUnit {
  std::size_t begin, end;
  bool opens = false;  ///< begins a sequence, or follows a special token: no span goes on into it
  bool chosen = false;
};

/// The words of `ids` as whole words are masked. A word is one by Unicode's rules (UAX 29); spaces
/// belong to the word after them. In Chinese, Japanese, Thai and other scripts without spaces it is
/// a character with its marks, or a token of several. Tokens are not cut, and a word has at most
/// max_word_tokens. Throws an Error unless the table knows words. `lengths` are those of the
/// sequences that `ids` hold, which share no word; empty: one sequence.
std::vector<MaskingUnit> word_units(std::span<const std::int64_t> ids, const MaskingTable& table,
                                    std::span<const std::int64_t> lengths = {});

/// Selects min(k, max(1, round(p · k))) of the k tokens of `ids` that are not special, where p is
/// the last probability, without replacement; halves are rounded up. Each selected token
/// independently becomes the mask token or a random ordinary token, or is unchanged. `labels`
/// receives the original ids of selected tokens and ignore_index elsewhere. Returns the number of
/// selected tokens; it is 0 only if every token is special. Padding is never selected if its id is
/// special, or if it is not part of `ids`.
///
/// Whole words: the units of word_units are drawn without replacement. One that does not fit into
/// the rest of the number above is passed over, as in BERT. If no unit fits, the first of these is
/// selected where it exceeds the rest by one token. Otherwise a rest of one token is left, and a
/// larger one is filled with the first tokens of that unit. So the number is met within one token.
/// Each token of a word is replaced independently.
///
/// Spans (Joshi et al., SpanBERT, arXiv 1907.10529): each span starts at a random token that is not
/// selected yet, and has a random length. It ends early at a selected or special token, with its
/// sequence (`lengths` as in word_units), or when the number above is reached. With whole words a
/// span starts at a word, and its length counts words.
std::int64_t mask_tokens(std::span<std::int64_t> ids, std::span<std::int64_t> labels,
                         const MaskingTable& table, const MaskingConfig& masking,
                         const MaskingKey& key, std::span<const std::int64_t> lengths = {});

/// Selects min(n − 1, max(1, round(share · n))) of the n rows of a sample of features,
/// without replacement: their numbers, ascending. A single row is selected, so that each sample has
/// a part in the loss, though nothing but the mean row tells it.
std::vector<std::int64_t> masked_rows(std::int64_t rows, double share, const MaskingKey& key);

// ---- Sentence-order prediction: the order of two segments of a text -----------------------------

/// A sample in two segments: cls A sep B sep.
struct Segments {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> types;  ///< 0 up to the first sep, 1 after it
  bool swapped = false;             ///< whether A follows B in the text
};

/// Cuts the text of a sample, cls text sep, at a random position into two segments that are not
/// empty. It exchanges them with probability ½ (Lan et al., ALBERT, arXiv 1909.11942). If the table
/// knows words and a word starts inside, the cut is at the start of a word. `key` determines the
/// draw.
Segments cut_in_segments(std::span<const std::int64_t> sample, const MaskingTable& table,
                         const MaskingKey& key);

}  // namespace nystrom
