// The number of operations of a step, from the model's shape.
#pragma once

#include <cstdint>

#include "nn/model_config.h"

namespace nystrom {

/// Operations of the matrix products; a multiply-add counts as two.
struct StepFlops {
  double layers, head;  ///< forward pass; the projection of embedding_size counts as of layers
  /// Operations of the forward pass.
  double forward() const { return layers + head; }
  /// Operations of the backward pass: twice the forward pass, and with checkpointing the layers'
  /// forward pass once more.
  double backward(bool checkpointing = false) const {
    return 2 * forward() + (checkpointing ? layers : 0);
  }
};
/// The operations for `sequences` sequences of `length` tokens. `predicted` is the share of tokens
/// for which a masked language model computes its last dense layers and logits. Heads with labels
/// count nothing, and their last layer as all others. The last layer counts with all its queries,
/// as GPUs compute it. A generator counts too.
StepFlops step_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                     double predicted);

}  // namespace nystrom
