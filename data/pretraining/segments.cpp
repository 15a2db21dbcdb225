#include "data/pretraining/segments.h"

#include "core/check.h"
#include "core/rng.h"

namespace nystrom {
namespace {

// Separates these draws from others under the same seed.
constexpr std::uint64_t segments_stream = 0x7365676d656e7473ull;

}  // namespace

Segments cut_in_segments(std::span<const std::int64_t> sample, const MaskingTable& table,
                         const MaskingKey& key) {
  require(sample.size() >= 4,
          "cut_in_segments: a sample of {} tokens, of which 2 are cls and sep, has no two segments",
          sample.size());
  const auto text = sample.subspan(1, sample.size() - 2);
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; table.knows_words() && i < text.size(); ++i) {
    if (table.starts_word(text[i])) cuts.push_back(i);
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
