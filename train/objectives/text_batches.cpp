#include "train/objectives/text_batches.h"

#include <algorithm>
#include <numeric>

namespace nystrom {

ModelInput input_of(const std::vector<TextIds>& texts) {
  ModelInput input;
  input.offsets = {0};
  std::vector<std::int64_t> ids;
  for (const TextIds& text : texts) {
    ids.insert(ids.end(), text.begin(), text.end());
    input.offsets.push_back(std::ssize(ids));
  }
  input.input_ids = Tensor::from(ids, {std::ssize(ids)});
  return input;
}

void for_each_batch(const std::vector<TextIds>& texts, const ModelConfig& config,
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
    compute({{order.begin() + static_cast<std::ptrdiff_t>(begin),
              order.begin() + static_cast<std::ptrdiff_t>(end)},
             input_of(rows)});
  }
}

}  // namespace nystrom
