// Masked language modelling: which tokens are asked for, and what stands in their place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ignore_index.h"

namespace nystrom {

/// Spans of units that are chosen together. Lengths are drawn from the geometric distribution of
/// this mean, and cut to `max`.
struct SpanOptions {
  double mean = 3;
  std::int64_t max = 10;
};

struct MaskingOptions {
  double probability = 0.15;  ///< share of the maskable tokens that is chosen
  double mask = 0.8;          ///< share of the chosen that becomes the mask token
  double random = 0.1;        ///< share that becomes a random ordinary token; the rest stays
  bool whole_word = false;    ///< choose words instead of tokens
  std::optional<SpanOptions> span{};  ///< choose neighbours together; nothing: each alone
};

/// What masking knows of a vocabulary: which ids are special (never chosen, never drawn), and which
/// start a word.
class MaskingTable {
 public:
  /// `starts_word` has a non-zero for each id that starts a word; it may be empty where words are
  /// not masked whole.
  MaskingTable(std::int64_t vocab_size, std::int64_t mask_id, std::span<const std::int64_t> special,
               std::vector<std::uint8_t> starts_word = {});

  std::int64_t mask_id() const { return mask_id_; }
  bool is_special(std::int64_t id) const { return special_[static_cast<std::size_t>(id)] != 0; }
  bool starts_word(std::int64_t id) const {
    return starts_word_[static_cast<std::size_t>(id)] != 0;
  }
  bool knows_words() const { return !starts_word_.empty(); }
  /// All ids that are not special.
  const std::vector<std::int64_t>& ordinary() const { return ordinary_; }

 private:
  std::int64_t mask_id_;
  std::vector<std::uint8_t> special_, starts_word_;
  std::vector<std::int64_t> ordinary_;
};

/// What decides the draw: nothing of the batch, the worker or the rank.
struct MaskingKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;   ///< evaluation draws epoch 0
  std::uint64_t sample = 0;  ///< the sample's number in the data set
};

/// InputError unless the rates are shares that fit together, spans have lengths, and whole words
/// only with a table that knows words.
void check_masking(const MaskingOptions& options, const MaskingTable& table);

/// Of the k tokens of `ids` that are not special, min(k, max(1, round(probability · k))) are chosen
/// without replacement, halves rounded up. Each chosen one, independently, becomes the mask token,
/// a random ordinary token, or stays. `labels` gets the original id where chosen and ignore_index
/// elsewhere. Returns the number chosen: 0 only when every token is special. Padding is masked not
/// at all when its id is special, or when it is not handed over.
///
/// Whole words: a word begins at a token that starts one, or behind a special token, and reaches to
/// the next beginning. Words are drawn without replacement until the number above is reached; all
/// tokens of the last are chosen, so it may be exceeded by that word's length less one. Each token
/// of a word makes its own draw of what it becomes.
///
/// Spans (Joshi et al., SpanBERT, arXiv 1907.10529): each starts at a token drawn from those not
/// chosen yet and goes on behind it for the length drawn, but ends early at a chosen token, a
/// special one, or when the number above is reached. With whole words a span starts at a word, and
/// its length counts words.
std::int64_t mask_tokens(std::span<std::int64_t> ids, std::span<std::int64_t> labels,
                         const MaskingTable& table, const MaskingOptions& options,
                         const MaskingKey& key);

}  // namespace nystrom
