// The inputs and targets of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// The input of a model: token ids, or features for the sequence block.
struct ModelInput {
  Tensor input_ids{};       ///< [r, n] i64
  Tensor features{};        ///< [r, n, embed_dim], in place of ids
  Tensor attention_mask{};  ///< [r, n] u8 on the CPU, 0 at padding; undefined: no padding
  Tensor token_type_ids{};  ///< [r, n] i64; undefined: all 0
};

/// A batch of b samples in r rows. Rows are padded at the end to the longest row's length n. For
/// multiple choice and towers r = b · c, with the c rows of a sample in sequence; otherwise r = b.
/// Loaders create all tensors on the CPU.
struct Batch {
  ModelInput input{};
  /// Masked LM and token classes: [b, n] i64, with ignore_index where there is no target. Classes
  /// and choices: [b] i64. Regression: [b] f32. Undefined for spans, and unless all samples have
  /// labels.
  Tensor labels{};
  /// [b] i64, the first positions of labelled spans.
  Tensor start_positions{};
  /// [b] i64, the last positions of labelled spans.
  Tensor end_positions{};
  /// Sentence-order prediction: [b] i64, 1 where the segments are exchanged. Otherwise undefined.
  Tensor swapped{};
  /// [r] i64, unique within a step; they decide dropout. An id is c times the sample's position,
  /// plus the choice. The position counts samples of the whole run (training) or of the data set
  /// (evaluation).
  Tensor sample_ids{};
  /// [b], the samples' numbers in the data set of a task.
  std::vector<std::int64_t> samples{};
  /// c, the rows of a sample; 2 for towers.
  std::int64_t choices = 1;
  /// The number of tokens without padding; for features the number of steps.
  std::int64_t tokens = 0;
  /// The number of labels in the loss: masked tokens, b, or labelled words; 0 without labels.
  std::int64_t targets = 0;
};

}  // namespace nystrom
