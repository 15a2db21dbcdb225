// Exact forward and backward of a model on given inputs: the mathematics of `nystrom forward`,
// apart from its files.
#pragma once

#include <map>
#include <string>

#include "nn/model.h"
#include "train/formats/safetensors.h"

namespace nystrom {

/// Inputs by the names they have in a batch file.
using NamedTensors = std::map<std::string, Tensor>;

/// logits (or start_logits and end_logits), last_hidden_state, output of the sequence block, with
/// labels loss, and with `gradients` grad.NAME of every parameter; f32, or f64 when the model
/// computes in f64. No dropout. InputError for inputs that are missing, unknown, of the wrong type
/// or shape, or outside their range: "input_ids[0, 3] is 70; expected 0 … 59".
std::vector<NamedTensor> run_forward(const Model& model, const NamedTensors& inputs,
                                     bool gradients);

}  // namespace nystrom
