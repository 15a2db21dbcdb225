// The options of single parameters: optimizer.groups and optimizer.layer_decay.
#pragma once

#include <vector>

#include "core/base/problem.h"
#include "nn/parameter_store.h"
#include "train/optim/options.h"

namespace nystrom {

/// How the optimizer treats one parameter.
struct ParameterOptions {
  double learning_rate_factor = 1;
  double weight_decay = 0;  ///< 0 for biases and LayerNorm
  bool frozen = false;
};

/// The options of each parameter of `store`, in its order. The last of options.groups whose pattern
/// matches a name applies. The learning rate of layer i of L, from 0, is also multiplied by
/// layer_decay^(L − i), and that of the embeddings by layer_decay^(L + 1); heads keep theirs
/// (layer-wise decay as in Bao et al., BEiT, arXiv 2106.08254).
std::vector<ParameterOptions> parameter_options(const ParameterStore& store,
                                                const OptimizerOptions& options);

/// Freezes the parameters of groups with `freeze`. Call it before the store is allocated.
void freeze_parameters(ParameterStore& store, const OptimizerOptions& options);

/// The rules that options.groups breaks for the parameters of `store`: patterns without a match,
/// groups that later ones replace entirely, contradicting options, and nothing left to train. Each
/// message begins with the path of an option: "optimizer.groups[0].parameters …".
Problems group_problems(const ParameterStore& store, const OptimizerOptions& options);

}  // namespace nystrom
