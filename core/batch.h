// The inputs and targets of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// Rows with this label have no loss and no gradient. It is the default of
/// torch.nn.CrossEntropyLoss.
inline constexpr std::int64_t ignore_index = -100;

/// The input of a model, token ids or features for the sequence block: rows of s sequences one
/// behind another, without padding. At the border to other programs it is padded instead.
struct ModelInput {
  Tensor input_ids{};       ///< [r] i64; padded: [s, n]
  Tensor features{};        ///< [r, embed_dim], in place of ids; padded: [s, n, embed_dim]
  Tensor attention_mask{};  ///< padded: [s, n] u8 on the CPU, 0 at padding; undefined: no padding
  Tensor token_type_ids{};  ///< of the ids' shape, i64; undefined: all 0
  /// [s + 1]: the first row of each sequence, and the row after the last. Empty: padded input.
  std::vector<std::int64_t> offsets{};

  /// The number of sequences of an input with offsets.
  std::int64_t sequences() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  /// The offsets; of padded input those of the elements of its flattened [s · n].
  std::vector<std::int64_t> element_offsets() const {
    if (!offsets.empty()) return offsets;
    const Tensor& padded = input_ids.defined() ? input_ids : features;
    std::vector<std::int64_t> result{0};
    for (std::int64_t i = 0; i < padded.dim(0); ++i)
      result.push_back(result.back() + padded.dim(1));
    return result;
  }
};

/// A batch of b samples in s sequences. For multiple choice and towers s = b · c, with the c
/// sequences of a sample one behind another; otherwise s = b. Loaders create all tensors on the
/// CPU.
struct Batch {
  ModelInput input{};
  /// Masked LM and token classes: [r] i64, with ignore_index where there is no target. Classes and
  /// choices: [b] i64. Regression: [b] f32. Undefined for spans, and unless all samples have
  /// labels.
  Tensor labels{};
  /// [b] i64, the first positions of labelled spans.
  Tensor start_positions{};
  /// [b] i64, the last positions of labelled spans.
  Tensor end_positions{};
  /// Sentence-order prediction: [b] i64, 1 where the segments are exchanged. Otherwise undefined.
  Tensor swapped{};
  /// [s] i64, unique within a step; they decide dropout. An id is c times the sample's position,
  /// plus the choice. The position counts samples of the whole run (training) or of the data set
  /// (evaluation).
  Tensor sample_ids{};
  /// [b], the samples' numbers in the data set of a task.
  std::vector<std::int64_t> samples{};
  /// c, the sequences of a sample; 2 for towers.
  std::int64_t choices = 1;
  /// r, the number of tokens; for features the number of steps.
  std::int64_t tokens = 0;
  /// [b], the factors of the samples' losses; empty: all are 1.
  std::vector<double> weights{};
  /// The number of labels in the loss: masked tokens, b, or labelled words; 0 without labels.
  std::int64_t targets = 0;
};

}  // namespace nystrom
