// What a model reads at once, and what it is to predict.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace nystrom {

/// What goes into a model: token ids, or features for the sequence block.
struct ModelInput {
  Tensor input_ids{};       ///< [r, n] i64
  Tensor features{};        ///< [r, n, embed_dim], instead of ids
  Tensor attention_mask{};  ///< [r, n] u8 on the CPU, 0 where padded; undefined: no padding
  Tensor token_type_ids{};  ///< [r, n] i64; undefined: all 0
};

/// Samples that are computed at once: b of them in r rows, padded behind to the longest, n.
/// Multiple choice and towers: r = b · c, the rows of a sample behind one another; otherwise r = b.
/// Loaders make all tensors on the CPU.
struct Batch {
  ModelInput input{};
  Tensor labels{};  ///< masked LM, classes of tokens: [b, n] i64, ignore_index where nothing is to
                    ///< be predicted; classes, choice: [b] i64; value: [b] f32; undefined for
                    ///< spans, and unless all samples are labelled
  Tensor start_positions{};  ///< [b] i64, of labelled spans
  Tensor end_positions{};    ///< [b] i64
  Tensor swapped{};     ///< sentence-order prediction: [b] i64, 1 where the segments are exchanged;
                        ///< undefined without
  Tensor sample_ids{};  ///< [r] i64, unique within a step: decides dropout. The sample's place in
                        ///< the whole run (training) or in the data set (evaluation), times c plus
                        ///< the choice
  std::vector<std::int64_t> samples{};  ///< [b]: their numbers in the data set of a task
  std::int64_t choices = 1;             ///< c: rows of a sample; 2 for towers
  std::int64_t tokens = 0;              ///< not padding; steps for features
  std::int64_t targets =
      0;  ///< labels that enter the loss: masked tokens, b, or labelled words; 0 when unlabelled
};

}  // namespace nystrom
