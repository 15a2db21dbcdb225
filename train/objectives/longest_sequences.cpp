#include "train/objectives/longest_sequences.h"

#include <algorithm>

namespace nystrom {
namespace {

MaskedSequence sequence_of(const MaskedSamples& samples, std::int64_t sample) {
  const SampleUse use{sample, 0, sample};
  const Batch batch = make_batch({&samples, 1}, {&use, 1});
  return {batch.input, batch.labels, batch.tokens, batch.targets};
}

}  // namespace

std::vector<MaskedSequence> longest_sequences(const MaskedSamples& samples, std::int64_t count) {
  const std::int64_t size = samples.packing->size(), looked_at = std::min(size, 32 * count);
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // negative token count, sample
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t sample = i * size / looked_at;
    order.emplace_back(-sequence_of(samples, sample).tokens, sample);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto is_longest = [&](const auto& each) { return each.first == order.front().first; };
  const auto longest =
      static_cast<std::size_t>(std::count_if(order.begin(), order.end(), is_longest));
  const std::size_t wanted = std::min(order.size(), static_cast<std::size_t>(count));
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < wanted; ++i)
    chosen.push_back(order[longest > wanted ? i * longest / wanted : i].second);
  std::sort(chosen.begin(), chosen.end());
  std::vector<MaskedSequence> result;
  for (const std::int64_t sample : chosen) result.push_back(sequence_of(samples, sample));
  return result;
}

}  // namespace nystrom
