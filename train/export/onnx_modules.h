// The modules of a model as nodes of an ONNX graph, with the model's weights.
#pragma once

#include <functional>
#include <map>

#include "nn/model.h"
#include "train/export/onnx_graph.h"

namespace nystrom {

/// The modules that all parts of a model consist of. Each belongs to the graph's present module.
struct OnnxModules {
  OnnxGraph& graph;
  const Model& model;
  /// Whether dense layers and the word table are int8. Weights [in, out] have WEIGHT_scale [out],
  /// and the word table one scale a row. Activations are quantised while the graph runs, by tensor.
  bool int8 = false;
  /// The inputs of int8 products: of each x its values, scale and zero point. Layers share them.
  std::map<OnnxValue, std::vector<OnnxValue>> quantised = {};

  /// The parameter `name` of the present module, f32, in its own shape.
  OnnxValue parameter(std::string_view name);
  /// The dense layer `name`: x […, in] → […, out]. Its weight is stored as [in, out].
  OnnxValue linear(const OnnxValue& x, std::string_view name);
  /// The normalisation `name` over the last axis.
  OnnxValue layer_norm(const OnnxValue& x, std::string_view name);
  OnnxValue activate(const OnnxValue& x, Activation activation);
  /// The rows `ids` of the word table: [b, n] → [b, n, hidden].
  OnnxValue embed_words(const OnnxValue& ids);
  /// x wordsᵀ for the decoder: […, hidden] → […, vocab_size]. A tied table is stored once.
  OnnxValue decode_words(const OnnxValue& x);

 private:
  bool has_bias() const;
  OnnxValue product(const OnnxValue& x);
};

/// The weight `name` with the elements of a contiguous f32 tensor, which is added once.
OnnxValue f32_weight(OnnxGraph& graph, const std::string& name, const Tensor& values);

/// Rounds a model, f32 on the CPU, to what its int8 file computes: dense layers and the word table
/// by ParameterStore::round_to_int8.
void round_to_int8(Model& model);

// ---- Attention of every kind (onnx_attention.cpp) -----------------------------------------------
//
// b rows, n positions. It follows python/export/modeling_nystrom.py.

/// The attention mask, as layers read it.
struct OnnxTokens {
  OnnxValue valid;   ///< [b, n] boolean: the tokens
  OnnxValue ones;    ///< [b, n] f32: 1 at tokens
  OnnxValue places;  ///< [b, n] i64: how many tokens a row has up to here
  OnnxValue count;   ///< [b, 1] i64: how many it has at all
};
/// The tokens of `mask` [b, n] i64, which is 0 at padding.
OnnxTokens onnx_tokens(OnnxGraph& graph, const OnnxValue& mask);

/// The attention of x [b, n, hidden] in `layer`, from 0, and its convolution, without the output
/// projection, as the present module: [b, n, hidden].
using OnnxAttention = std::function<OnnxValue(std::int64_t layer, const OnnxValue& x)>;
/// Adds what the attention of all layers shares to the present module.
OnnxAttention onnx_attention(OnnxModules& modules, const OnnxTokens& tokens);

}  // namespace nystrom
