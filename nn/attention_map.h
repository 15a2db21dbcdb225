// How much each row of features counts for a model's output.
#pragma once

#include "nn/model.h"

namespace nystrom {

/// The reason why a model has no attention map; empty if it has one.
std::string attention_map_obstacle(const ModelConfig& config);

/// The score of each row of one sequence of features, [n] in f64: with pooling attention its weight
/// in the mean; with pooling token the mean over the heads of the class token's row of the last
/// attention, F · A⁺ · B, in O(n) memory. Throws an InputError for other models. An input that is
/// moved here is freed as soon as it is embedded.
Tensor attention_map(const Model& model, ModelInput input);

}  // namespace nystrom
