// Dense layers in int8, quantised dynamically: weights beforehand, by output channel, and
// activations while the graph runs, by tensor.
#pragma once

#include "train/export/onnx_modules.h"

namespace nystrom {

/// x Wᵀ for the parameter `weight` [out, in]: x […, in] → […, out]. It is stored as int8 [in, out]
/// and WEIGHT_scale [out]. Layers that read the same x share its quantisation.
OnnxValue int8_linear(OnnxModules& modules, const OnnxValue& x, const std::string& weight);

/// The rows `ids` of the parameter `table` [rows, width], stored as int8 with TABLE_scale [rows].
OnnxValue int8_rows(OnnxModules& modules, const OnnxValue& ids, const std::string& table);

/// x tableᵀ for the table of int8_rows, which is not stored again.
OnnxValue int8_decode(OnnxModules& modules, const OnnxValue& x, const std::string& table);

/// Rounds a model, f32 on the CPU, to what its int8 file computes: dense layers and the word table
/// by ParameterStore::round_to_int8.
void round_to_int8(Model& model);

}  // namespace nystrom
