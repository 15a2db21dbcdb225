#include "data/pretraining/masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/utf8.h"
#include "core/check.h"
#include "core/rng.h"
#include "data/tokenizers/pipeline/pattern.h"

namespace nystrom {
namespace {

// Separate these draws from others under the same seed.
constexpr std::uint64_t masking_stream = 0x6d61736b696e6721ull;
constexpr std::uint64_t segments_stream = 0x7365676d656e7473ull;

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
  /// `max`; without a mean 1.
  std::size_t span_length(std::size_t i, const SpanConfig& span) const {
    if (!span.mean) return 1;
    const double uniform = uniform_open(block(i, 2).word[0]), go_on = 1 - 1 / *span.mean;
    std::size_t length = 1;
    for (double longer = go_on; uniform < longer && length < static_cast<std::size_t>(span.max);
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

/// Calls add(begin, end) for each stretch of a sequence that has no special token.
template <class F>
void for_each_stretch(std::span<const std::int64_t> ids, const MaskingTable& table,
                      std::span<const std::int64_t> lengths, const F& add) {
  const std::int64_t whole[] = {std::ssize(ids)};
  std::size_t begin = 0, last = 0;
  for (const std::int64_t length : lengths.empty() ? std::span(whole) : lengths) {
    last += static_cast<std::size_t>(length);
    while (begin < last) {
      std::size_t end = begin;
      while (end < last && !table.is_special(ids[end])) ++end;
      if (end > begin) add(begin, end);
      begin = std::min(end + 1, last);
    }
  }
}

/// Each token that may be masked, alone.
std::vector<MaskingUnit> token_units(std::span<const std::int64_t> ids, const MaskingTable& table,
                                     std::span<const std::int64_t> lengths) {
  std::vector<MaskingUnit> units;
  for_each_stretch(ids, table, lengths, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) units.push_back({i, i + 1, i == begin});
  });
  return units;
}

/// Replaces bytes that are no UTF-8 by control characters: a sequence may begin or end inside a
/// character.
void repair(std::string& text) {
  for (std::size_t at = 0;
       (at += valid_utf8_prefix(std::string_view(text).substr(at))) < text.size();)
    text[at] = '\x01';
}

/// Adds the words of a stretch, which begins at position `first`.
void add_words(std::span<const std::int64_t> ids, std::size_t first, const MaskingTable& table,
               std::vector<MaskingUnit>& units) {
  static const Pattern words(R"((?y{w})\X)", "word boundaries");
  std::string text;
  std::vector<std::size_t> starts;
  for (const std::int64_t id : ids) {
    starts.push_back(text.size());
    text += table.surface(id);
  }
  repair(text);
  std::vector<bool> breaks(text.size() + 1, false);
  for (const ByteRange& word : words.find_all(text)) breaks[word.begin] = true;
  bool only_spaces = false;  // the unit has no more than spaces
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string& surface = table.surface(ids[i]);
    const bool starts_word = surface.starts_with(' ') || breaks[starts[i]];
    const bool begins = i == 0 || (starts_word && !only_spaces) ||
                        units.back().end - units.back().begin == max_word_tokens;
    if (begins)
      units.push_back({first + i, first + i + 1, i == 0});
    else
      units.back().end = first + i + 1;
    only_spaces = (begins || only_spaces) && surface.find_first_not_of(' ') == surface.npos;
  }
}

/// The number of tokens to select.
std::size_t target_of(std::span<const MaskingUnit> units, double share) {
  std::size_t maskable = 0;
  for (const MaskingUnit& unit : units) maskable += unit.end - unit.begin;
  const auto rounded = static_cast<std::size_t>(std::lround(share * static_cast<double>(maskable)));
  return std::min(maskable, std::max<std::size_t>(1, rounded));
}

/// Selects units of `target` tokens together, within one token. May cut a unit.
void choose(std::span<MaskingUnit> units, std::size_t target, const SpanConfig& span,
            const Draws& draws) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size_of = [&](std::size_t u) { return units[u].end - units[u].begin; };
  const std::size_t all = target;
  std::optional<std::size_t> too_long;  // the first one that did not fit
  for (std::size_t i = 0; target > 0 && i < order.size(); ++i) {
    // A Fisher–Yates shuffle, as far as it is needed.
    std::swap(order[i], order[i + draws.choice(i, order.size() - i)]);
    const std::size_t first = order[i],
                      end = std::min(units.size(), first + draws.span_length(i, span));
    for (std::size_t u = first; u < end && target > 0 && !units[u].chosen; ++u) {
      if (u > first && units[u].opens) break;
      if (size_of(u) > target) {
        if (!too_long) too_long = u;
        break;
      }
      units[u].chosen = true;
      target -= size_of(u);
    }
  }
  if (target == 0 || !too_long) return;
  MaskingUnit& rest = units[*too_long];
  if (rest.end - rest.begin > target + 1) {
    if (target == 1 && all > 1) return;
    rest.end = rest.begin + target;
  }
  rest.chosen = true;
}

}  // namespace

MaskingTable::MaskingTable(std::int64_t vocab_size, std::int64_t mask_id,
                           std::span<const std::int64_t> special, std::vector<std::string> surfaces)
    : mask_id_(mask_id),
      special_(static_cast<std::size_t>(vocab_size), 0),
      surfaces_(std::move(surfaces)) {
  require(mask_id >= 0 && mask_id < vocab_size,
          "MaskingTable: mask id {} is outside of the vocabulary of {}", mask_id, vocab_size);
  require(surfaces_.empty() || static_cast<std::int64_t>(surfaces_.size()) == vocab_size,
          "MaskingTable: texts of {} ids, for a vocabulary of {}", surfaces_.size(), vocab_size);
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

std::vector<MaskingUnit> word_units(std::span<const std::int64_t> ids, const MaskingTable& table,
                                    std::span<const std::int64_t> lengths) {
  require(table.knows_words(), "masking: the table knows no words");
  std::vector<MaskingUnit> units;
  for_each_stretch(ids, table, lengths, [&](std::size_t begin, std::size_t end) {
    add_words(ids.subspan(begin, end - begin), begin, table, units);
  });
  return units;
}

std::int64_t mask_tokens(std::span<std::int64_t> ids, std::span<std::int64_t> labels,
                         const MaskingTable& table, const MaskingConfig& masking,
                         const MaskingKey& key, std::span<const std::int64_t> lengths) {
  require(ids.size() == labels.size(), "mask_tokens: {} ids and {} labels", ids.size(),
          labels.size());
  std::fill(labels.begin(), labels.end(), ignore_index);
  std::vector<MaskingUnit> units =
      masking.whole_word ? word_units(ids, table, lengths) : token_units(ids, table, lengths);
  const Draws draws(key);
  choose(units, target_of(units, masking.probability.last()), masking.span, draws);
  const std::vector<std::int64_t>& ordinary = table.ordinary();
  std::int64_t chosen = 0;
  for (const MaskingUnit& unit : units) {
    for (std::size_t position = unit.begin; unit.chosen && position < unit.end; ++position) {
      const Draws::Fate fate = draws.fate(position);
      labels[position] = ids[position];
      ++chosen;
      if (fate.uniform < masking.mask) {
        ids[position] = table.mask_id();
      } else if (fate.uniform < masking.mask + masking.random) {
        ids[position] = ordinary[fate.replacement % ordinary.size()];
      }
    }
  }
  return chosen;
}

std::vector<std::int64_t> masked_rows(std::int64_t rows, double share, const MaskingKey& key) {
  std::vector<MaskingUnit> units;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
    units.push_back({row, row + 1});
  const std::size_t most = std::max<std::size_t>(1, units.size() - 1);
  choose(units, std::min(most, target_of(units, share)), SpanConfig{}, Draws(key));
  std::vector<std::int64_t> chosen;
  for (const MaskingUnit& unit : units)
    if (unit.chosen) chosen.push_back(static_cast<std::int64_t>(unit.begin));
  return chosen;
}

Segments cut_in_segments(std::span<const std::int64_t> sample, const MaskingTable& table,
                         const MaskingKey& key) {
  require(sample.size() >= 4,
          "cut_in_segments: a sample of {} tokens, of which 2 are cls and sep, has no two segments",
          sample.size());
  const auto text = sample.subspan(1, sample.size() - 2);
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; table.knows_words() && i < text.size(); ++i) {
    if (table.surface(text[i]).starts_with(' ')) cuts.push_back(i);
  }
  const PhiloxBlock draw = philox(philox_key(mix64(key.seed ^ segments_stream), key.epoch),
                                  {{0, static_cast<std::uint32_t>(key.sample),
                                    static_cast<std::uint32_t>(key.sample >> 32), 0}});
  const std::size_t cut =
      cuts.empty() ? 1 + draw.word[0] % (text.size() - 1) : cuts[draw.word[0] % cuts.size()];
  Segments result;
  result.swapped = draw.word[1] % 2 == 1;
  const auto first = result.swapped ? text.subspan(cut) : text.first(cut),
             second = result.swapped ? text.first(cut) : text.subspan(cut);
  result.ids.push_back(sample.front());
  result.ids.insert(result.ids.end(), first.begin(), first.end());
  result.ids.push_back(sample.back());
  result.types.assign(result.ids.size(), 0);
  result.ids.insert(result.ids.end(), second.begin(), second.end());
  result.ids.push_back(sample.back());
  result.types.resize(result.ids.size(), 1);
  return result;
}

}  // namespace nystrom
