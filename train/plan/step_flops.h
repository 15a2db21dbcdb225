// How many operations a step takes, from the shape of the model alone.
#pragma once

#include <cstdint>

#include "nn/model_config.h"

namespace nystrom {

/// Operations of the matrix products, two a multiply-add.
struct StepFlops {
  double layers, head;  ///< forward
  double forward() const { return layers + head; }
  /// Twice the forward, and with checkpointing the layers' forward once more.
  double backward(bool checkpointing = false) const {
    return 2 * forward() + (checkpointing ? layers : 0);
  }
};
/// Of `sequences` sequences of `length` tokens. `predicted` is the share of the tokens at which a
/// masked language model gives logits; 0 without that head.
StepFlops step_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                     double predicted);

}  // namespace nystrom
