#include "train/pretrain/text_batches.h"

#include <algorithm>
#include <numeric>

namespace nystrom {

ModelInput input_of(const std::vector<TextIds>& texts, std::int64_t positions, std::int64_t pad) {
  std::vector<std::int64_t> ids;
  std::vector<std::uint8_t> valid;
  bool padded = false;
  for (const TextIds& text : texts) {
    const std::size_t rest = static_cast<std::size_t>(positions) - text.size();
    ids.insert(ids.end(), text.begin(), text.end());
    ids.insert(ids.end(), rest, pad);
    valid.insert(valid.end(), text.size(), 1);
    valid.insert(valid.end(), rest, 0);
    padded |= rest > 0;
  }
  const Shape shape{static_cast<std::int64_t>(texts.size()), positions};
  return {Tensor::from(ids, shape), {}, padded ? Tensor::from(valid, shape) : Tensor(), {}};
}

void for_each_batch(const std::vector<TextIds>& texts, const ModelConfig& config, std::int64_t pad,
                    std::int64_t batch_size, const std::function<void(const TextBatch&)>& compute) {
  const bool same_length = config.needs_equal_lengths();
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return texts[i].size(); });
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    std::vector<TextIds> rows;
    for (; end < order.size() && end - begin < static_cast<std::size_t>(batch_size); ++end) {
      const TextIds& text = texts[order[end]];
      if (same_length && !rows.empty() && rows[0].size() != text.size()) break;
      rows.push_back(text);
    }
    const std::int64_t positions =
        config.fixed_length().value_or(static_cast<std::int64_t>(rows.back().size()));
    compute({{order.begin() + static_cast<std::ptrdiff_t>(begin),
              order.begin() + static_cast<std::ptrdiff_t>(end)},
             positions,
             input_of(rows, positions, pad)});
  }
}

}  // namespace nystrom
