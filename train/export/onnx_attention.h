// Attention of every kind as nodes of an ONNX graph. b rows, n positions, h heads, d head width, m
// landmarks. It follows python/export/modeling_nystrom.py.
#pragma once

#include <functional>

#include "train/export/onnx_modules.h"

namespace nystrom {

/// What the attention mask says.
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
