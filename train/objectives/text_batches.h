// Texts of similar length as batches for a model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/batch.h"

namespace nystrom {

/// The ids of a text, with the special tokens.
using TextIds = std::span<const std::int32_t>;

/// Calls `compute` with the batches_by_length (data/tasks/task_loader.h) of texts: their numbers,
/// one for each sequence of the input.
void for_each_batch(
    const std::vector<TextIds>& texts, std::int64_t batch_size,
    const std::function<void(const std::vector<std::size_t>&, const ModelInput&)>& compute);

}  // namespace nystrom
