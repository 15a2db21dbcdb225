// How many operations a step takes, from the shape of the model alone.
#pragma once

#include <cstdint>

#include "nn/model_config.h"

namespace nystrom {

/// Of the matrix products of `sequences` sequences of `length` tokens, two operations a multiply-add: forward, of which backward takes
/// twice as many. `predicted` is the share of the tokens at which a masked language model gives logits; 0 without that head.
double forward_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length, double predicted);

}  // namespace nystrom
