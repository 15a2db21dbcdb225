// Tokenized texts as batches for a model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "nn/model_config.h"

namespace nystrom {

/// The ids of a text, with the special tokens.
using TextIds = std::span<const std::int32_t>;

/// The model input of these texts.
ModelInput input_of(const std::vector<TextIds>& texts);

/// Texts that a model computes at once.
struct TextBatch {
  std::vector<std::size_t> texts;  ///< their numbers, one for each sequence
  ModelInput input;
};

/// Calls `compute` with batches of at most `batch_size` texts of similar length, shorter texts
/// first. Where padding would change the results, only texts of the same length share a batch.
void for_each_batch(const std::vector<TextIds>& texts, const ModelConfig& config,
                    std::int64_t batch_size, const std::function<void(const TextBatch&)>& compute);

}  // namespace nystrom
