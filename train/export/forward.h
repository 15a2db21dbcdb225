// Forward and backward pass of a model on given inputs: the computation of `nystrom forward`
// without its files.
#pragma once

#include <map>
#include <string>

#include "nn/model.h"
#include "train/state/safetensors.h"

namespace nystrom {

/// Inputs, by their names in a batch file.
using NamedTensors = std::map<std::string, Tensor>;

/// The checked input of a model with this configuration. Integers may have any width. Throws an
/// InputError for tensors that are missing, unknown, of the wrong type or shape, or out of range:
/// "input_ids[0, 3] is 70; expected 0 … 59".
ModelInput model_input(const ModelConfig& config, const NamedTensors& inputs);

/// Computes logits (or start_logits and end_logits), last_hidden_state, and output of the sequence
/// block. With labels there is loss, and with `gradients` grad.NAME of every parameter. Results are
/// f32, or f64 if the model computes in f64. No dropout. Throws as model_input().
std::vector<NamedTensor> run_forward(const Model& model, const NamedTensors& inputs,
                                     bool gradients);

}  // namespace nystrom
