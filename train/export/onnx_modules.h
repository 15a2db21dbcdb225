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
  /// Whether dense layers and the word table are int8 (see onnx_int8.h).
  bool int8 = false;
  std::map<OnnxValue, std::vector<OnnxValue>> quantised = {};  ///< see onnx_int8.h

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

}  // namespace nystrom
