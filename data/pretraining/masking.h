// Masked language modelling: the choice of masked tokens, and their replacement.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ignore_index.h"

namespace nystrom {

/// Spans of neighbouring tokens or words that are masked together. Their lengths follow the
/// geometric distribution with this mean, cut to `max`.
struct SpanOptions {
  double mean = 3;
  std::int64_t max = 10;
};

/// The options of masking.
struct MaskingOptions {
  double probability = 0.15;  ///< share of the maskable tokens that are selected
  double mask = 0.8;          ///< share of the selected tokens that become the mask token
  double random = 0.1;        ///< share that become a random ordinary token; the rest is unchanged
  bool whole_word = false;    ///< select words, not tokens
  std::optional<SpanOptions> span{};  ///< select spans; nothing: select tokens or words one by one
};

/// The properties of a vocabulary that masking needs: special ids, which are never selected or
/// drawn, and ids that start a word.
class MaskingTable {
 public:
  /// `starts_word` is non-zero for each id that starts a word. It may be empty unless whole words
  /// are masked.
  MaskingTable(std::int64_t vocab_size, std::int64_t mask_id, std::span<const std::int64_t> special,
               std::vector<std::uint8_t> starts_word = {});

  /// The id of the mask token.
  std::int64_t mask_id() const { return mask_id_; }
  /// Whether the id is special.
  bool is_special(std::int64_t id) const { return special_[static_cast<std::size_t>(id)] != 0; }
  /// Whether the id starts a word.
  bool starts_word(std::int64_t id) const {
    return starts_word_[static_cast<std::size_t>(id)] != 0;
  }
  /// Whether the table knows which ids start a word.
  bool knows_words() const { return !starts_word_.empty(); }
  /// All ids that are not special.
  const std::vector<std::int64_t>& ordinary() const { return ordinary_; }

 private:
  std::int64_t mask_id_;
  std::vector<std::uint8_t> special_, starts_word_;
  std::vector<std::int64_t> ordinary_;
};

/// The key of the random draw. Batches, workers and ranks do not influence it.
struct MaskingKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;   ///< evaluation uses epoch 0
  std::uint64_t sample = 0;  ///< the sample's number in the data set
};

/// Throws an InputError unless the shares are valid and spans have lengths. Whole words need a
/// table that knows words.
void check_masking(const MaskingOptions& options, const MaskingTable& table);

/// Selects min(k, max(1, round(probability · k))) of the k tokens of `ids` that are not special,
/// without replacement; halves are rounded up. Each selected token independently becomes the mask
/// token or a random ordinary token, or is unchanged. `labels` receives the original ids of
/// selected tokens and ignore_index elsewhere. Returns the number of selected tokens; it is 0 only
/// if every token is special. Padding is never selected if its id is special, or if it is not part
/// of `ids`.
///
/// Whole words: a word begins at a token that starts one, or after a special token, and extends to
/// the next beginning. Words are drawn without replacement until the number above is reached. All
/// tokens of the last word are selected, so the number may be exceeded by that word's length minus
/// one. Each token of a word is replaced independently.
///
/// Spans (Joshi et al., SpanBERT, arXiv 1907.10529): each span starts at a random token that is not
/// selected yet, and has a random length. It ends early at a selected or special token, or when the
/// number above is reached. With whole words a span starts at a word, and its length counts words.
std::int64_t mask_tokens(std::span<std::int64_t> ids, std::span<std::int64_t> labels,
                         const MaskingTable& table, const MaskingOptions& options,
                         const MaskingKey& key);

}  // namespace nystrom
