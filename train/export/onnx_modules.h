// The modules of a model as nodes of an ONNX graph, with the model's weights.
#pragma once

#include <map>

#include "nn/model.h"
#include "train/export/onnx_graph.h"

namespace nystrom {

/// The modules that all parts of a model consist of. Each belongs to the graph's present module.
struct OnnxModules {
  OnnxGraph& graph;
  const Model& model;
  /// Whether dense layers and the word table are int8 (see below).
  bool int8 = false;
  std::map<OnnxValue, std::vector<OnnxValue>> quantised = {};  ///< by int8_linear

  /// The parameter `name` of the present module, f32, in its own shape.
  OnnxValue parameter(std::string_view name);
  /// The dense layer `name`: x […, in] → […, out]. Its weight is stored as [in, out].
  OnnxValue linear(const OnnxValue& x, std::string_view name);
  /// The normalisation `name` over the last axis.
  OnnxValue layer_norm(const OnnxValue& x, std::string_view name);
  /// An activation function.
  OnnxValue activate(const OnnxValue& x, Activation activation);
  /// The rows `ids` of the word table: [b, n] → [b, n, hidden].
  OnnxValue embed_words(const OnnxValue& ids);
  /// x wordsᵀ for the decoder: […, hidden] → […, vocab_size]. A tied table is stored once.
  OnnxValue decode_words(const OnnxValue& x);

 private:
  bool has_bias() const;
  OnnxValue product(const OnnxValue& x);
};

/// The values of parameter `name`, f32 on the CPU.
Tensor f32_values(const Model& model, const std::string& name);
/// The elements of a contiguous f32 tensor, for OnnxGraph::weight.
std::string f32_bytes(const Tensor& values);

// ---- Dense layers in int8 (onnx_int8.cpp) -------------------------------------------------------
//
// They are quantised dynamically: weights beforehand, by output channel, and activations while the
// graph runs, by tensor.

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
