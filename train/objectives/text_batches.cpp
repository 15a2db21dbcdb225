#include "train/objectives/text_batches.h"

#include "data/tasks/task_metrics.h"

namespace nystrom {

std::vector<std::vector<std::int64_t>> batches_by_length(std::span<const std::int64_t> lengths,
                                                         const ModelConfig& config,
                                                         std::int64_t batch_size,
                                                         std::int64_t max_tokens) {
  std::vector<std::vector<std::int64_t>> batches;
  for (const std::size_t sequence :
       indices_by(lengths.size(), [&](std::size_t i) { return lengths[i]; })) {
    const std::int64_t length = lengths[sequence];
    const auto fits = [&](const std::vector<std::int64_t>& batch) {
      return std::ssize(batch) < batch_size && (std::ssize(batch) + 1) * length <= max_tokens &&
             (!config.needs_equal_lengths() ||
              lengths[static_cast<std::size_t>(batch[0])] == length);
    };
    if (batches.empty() || !fits(batches.back())) batches.emplace_back();
    batches.back().push_back(static_cast<std::int64_t>(sequence));
  }
  return batches;
}

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

void for_each_batch(
    const std::vector<TextIds>& texts, const ModelConfig& config, std::int64_t batch_size,
    const std::function<void(const std::vector<std::size_t>&, const ModelInput&)>& compute) {
  std::vector<std::int64_t> lengths;
  for (const TextIds& text : texts) lengths.push_back(std::ssize(text));
  for (const auto& batch : batches_by_length(lengths, config, batch_size)) {
    const std::vector<std::size_t> numbers(batch.begin(), batch.end());
    std::vector<TextIds> rows;
    for (const std::size_t text : numbers) rows.push_back(texts[text]);
    compute(numbers, input_of(rows));
  }
}

}  // namespace nystrom
