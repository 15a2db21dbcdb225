#include "train/objectives/text_batches.h"

#include "data/tasks/task_loader.h"

namespace nystrom {

void for_each_batch(
    const std::vector<TextIds>& texts, std::int64_t batch_size,
    const std::function<void(const std::vector<std::size_t>&, const ModelInput&)>& compute) {
  std::vector<std::int64_t> lengths;
  for (const TextIds& text : texts) lengths.push_back(std::ssize(text));
  for (const auto& batch : batches_by_length(lengths, batch_size)) {
    const std::vector<std::size_t> numbers(batch.begin(), batch.end());
    std::vector<WrappedIds> rows;
    for (const std::size_t text : numbers)
      rows.push_back({{texts[text].begin(), texts[text].end()}, {}});
    compute(numbers, joined_rows(rows));
  }
}

}  // namespace nystrom
