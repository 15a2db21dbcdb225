#include "data/pretraining/masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/rng.h"

namespace nystrom {
namespace {

// Separates these draws from others under the same seed.
constexpr std::uint64_t masking_stream = 0x6d61736b696e6721ull;

/// The random draws of one sample.
class Draws {
 public:
  explicit Draws(const MaskingKey& key)
      : key_(philox_key(mix64(key.seed ^ masking_stream), key.epoch)), sample_(key.sample) {}

  /// The i-th choice, uniform below `range`. With 64 bits the bias of the remainder is negligible.
  std::uint64_t choice(std::size_t i, std::uint64_t range) const {
    const PhiloxBlock words = block(i, 0);
    return wide(words.word[0], words.word[1]) % range;
  }

  /// The number of units in the i-th span: more than n with probability (1 − 1/mean)ⁿ, but at most
  /// `max`.
  std::size_t span_length(std::size_t i, const SpanOptions& options) const {
    const double uniform = uniform_open(block(i, 2).word[0]), go_on = 1 - 1 / options.mean;
    std::size_t length = 1;
    for (double longer = go_on; uniform < longer && length < static_cast<std::size_t>(options.max);
         longer *= go_on)
      ++length;
    return length;
  }

  struct Fate {
    double uniform;             // in (0, 1)
    std::uint64_t replacement;  // any 64 bits
  };
  /// The draw for the token at `position`, if it is selected.
  Fate fate(std::size_t position) const {
    const PhiloxBlock words = block(position, 1);
    return {uniform_open(words.word[0]), wide(words.word[2], words.word[3])};
  }

 private:
  static std::uint64_t wide(std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint64_t>(high) << 32 | low;
  }
  PhiloxBlock block(std::size_t i, std::uint32_t purpose) const {
    return philox(key_, {{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(sample_),
                          static_cast<std::uint32_t>(sample_ >> 32), purpose}});
  }

  PhiloxKey key_;
  std::uint64_t sample_;
};

/// Positions begin … end − 1 that are selected together.
struct Unit {
  std::size_t begin, end;
  bool chosen = false;
};

std::vector<Unit> units_of(std::span<const std::int64_t> ids, const MaskingTable& table,
                           bool whole_word) {
  std::vector<Unit> units;
  bool goes_on = false;  // whether the previous token belongs to a word
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool maskable = !table.is_special(ids[i]);
    if (maskable && whole_word && goes_on && !table.starts_word(ids[i])) {
      units.back().end = i + 1;
    } else if (maskable) {
      units.push_back({i, i + 1});
    }
    goes_on = maskable;
  }
  return units;
}

}  // namespace

MaskingTable::MaskingTable(std::int64_t vocab_size, std::int64_t mask_id,
                           std::span<const std::int64_t> special,
                           std::vector<std::uint8_t> starts_word)
    : mask_id_(mask_id),
      special_(static_cast<std::size_t>(vocab_size), 0),
      starts_word_(std::move(starts_word)) {
  require(mask_id >= 0 && mask_id < vocab_size,
          "MaskingTable: mask id {} is outside of the vocabulary of {}", mask_id, vocab_size);
  require(starts_word_.empty() || static_cast<std::int64_t>(starts_word_.size()) == vocab_size,
          "MaskingTable: word starts of {} ids, for a vocabulary of {}", starts_word_.size(),
          vocab_size);
  special_[static_cast<std::size_t>(mask_id)] = 1;
  for (const std::int64_t id : special) {
    require(id >= 0 && id < vocab_size,
            "MaskingTable: special id {} is outside of the vocabulary of {}", id, vocab_size);
    special_[static_cast<std::size_t>(id)] = 1;
  }
  for (std::int64_t id = 0; id < vocab_size; ++id) {
    if (!is_special(id)) ordinary_.push_back(id);
  }
  require_input(!ordinary_.empty(), "masking: all {} ids of the vocabulary are special",
                vocab_size);
}

void check_masking(const MaskingOptions& options, const MaskingTable& table) {
  const auto share = [](double rate) { return rate >= 0 && rate <= 1; };
  require_input(options.probability > 0 && share(options.probability),
                "masking.probability: {} is not above 0 and at most 1", options.probability);
  require_input(share(options.mask) && share(options.random),
                "masking: mask {} and random {} are not between 0 and 1", options.mask,
                options.random);
  require_input(options.mask + options.random <= 1 + 1e-9,
                "masking: mask {} and random {} are more than 1 together", options.mask,
                options.random);
  require_input(!options.span || (options.span->mean >= 1 && options.span->max >= 1),
                "masking.span: mean {} and max {} are not at least 1",
                options.span ? options.span->mean : 0, options.span ? options.span->max : 0);
  require_input(!options.whole_word || table.knows_words(),
                "masking.whole_word: this tokenizer does not say which tokens start a word");
}

namespace {

/// The number of tokens to select.
std::int64_t target_of(std::span<const Unit> units, double probability) {
  std::int64_t maskable = 0;
  for (const Unit& unit : units) maskable += static_cast<std::int64_t>(unit.end - unit.begin);
  const std::int64_t rounded = std::lround(probability * static_cast<double>(maskable));
  return std::min(maskable, std::max<std::int64_t>(1, rounded));
}

/// Selects units until they hold `target` tokens.
void choose(std::span<Unit> units, std::int64_t target, const std::optional<SpanOptions>& span,
            const Draws& draws) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = 0; target > 0; ++i) {
    // A Fisher–Yates shuffle, as far as it is needed.
    std::swap(order[i], order[i + draws.choice(i, order.size() - i)]);
    const std::size_t first = order[i],
                      end =
                          std::min(units.size(), first + (span ? draws.span_length(i, *span) : 1));
    for (std::size_t u = first; u < end && target > 0 && !units[u].chosen; ++u) {
      if (u > first && units[u].begin != units[u - 1].end) break;  // a special token lies between
      units[u].chosen = true;
      target -= static_cast<std::int64_t>(units[u].end - units[u].begin);
    }
  }
}

}  // namespace

std::int64_t mask_tokens(std::span<std::int64_t> ids, std::span<std::int64_t> labels,
                         const MaskingTable& table, const MaskingOptions& options,
                         const MaskingKey& key) {
  require(ids.size() == labels.size(), "mask_tokens: {} ids and {} labels", ids.size(),
          labels.size());
  std::fill(labels.begin(), labels.end(), ignore_index);
  std::vector<Unit> units = units_of(ids, table, options.whole_word);
  const Draws draws(key);
  choose(units, target_of(units, options.probability), options.span, draws);
  const std::vector<std::int64_t>& ordinary = table.ordinary();
  std::int64_t chosen = 0;
  for (const Unit& unit : units) {
    for (std::size_t position = unit.begin; unit.chosen && position < unit.end; ++position) {
      const Draws::Fate fate = draws.fate(position);
      labels[position] = ids[position];
      ++chosen;
      if (fate.uniform < options.mask) {
        ids[position] = table.mask_id();
      } else if (fate.uniform < options.mask + options.random) {
        ids[position] = ordinary[fate.replacement % ordinary.size()];
      }
    }
  }
  return chosen;
}

}  // namespace nystrom
