// The padding of batches of texts.
#pragma once

#include "data/tasks/task_loader.h"
#include "nn/model_config.h"

namespace nystrom {

/// The padding for `model` and texts of at most `sequence_length` tokens: to the only length that
/// the model takes, else to multiples of 8, or not at all where padding changes results.
inline PaddingOptions padding_of(const ModelConfig& model, std::int64_t sequence_length) {
  if (const auto fixed = model.fixed_length()) return {*fixed, *fixed};
  if (model.needs_equal_lengths()) return {1, sequence_length, true};
  return {8, sequence_length};
}

}  // namespace nystrom
