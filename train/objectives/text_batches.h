// Texts of similar length as batches for a model.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "core/batch.h"
#include "nn/model_config.h"

namespace nystrom {

/// The numbers of sequences that share a batch, shorter sequences first: at most `batch_size`, with
/// at most `max_tokens` tokens if all were as long as the longest. Where padding would change the
/// results, only sequences of the same length share one.
std::vector<std::vector<std::int64_t>> batches_by_length(
    std::span<const std::int64_t> lengths, const ModelConfig& config, std::int64_t batch_size,
    std::int64_t max_tokens = std::numeric_limits<std::int64_t>::max());

/// The ids of a text, with the special tokens.
using TextIds = std::span<const std::int32_t>;

/// The model input of these texts.
ModelInput input_of(const std::vector<TextIds>& texts);

/// Calls `compute` with the batches_by_length of texts: their numbers, one for each sequence of the
/// input.
void for_each_batch(
    const std::vector<TextIds>& texts, const ModelConfig& config, std::int64_t batch_size,
    const std::function<void(const std::vector<std::size_t>&, const ModelInput&)>& compute);

}  // namespace nystrom
