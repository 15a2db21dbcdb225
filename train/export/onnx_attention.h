// Attention of every kind as nodes of an ONNX graph. b rows, n positions, h heads, d head width, m
// landmarks. It follows python/export/modeling_nystrom.py.
#pragma once

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

/// The attention of all layers: what they share is computed once.
class OnnxAttention {
 public:
  OnnxAttention(OnnxModules& modules, const OnnxTokens& tokens);
  /// The attention of x [b, n, hidden] in `layer`, from 0, and its convolution, without the output
  /// projection, as the present module: [b, n, hidden].
  OnnxValue operator()(std::int64_t layer, const OnnxValue& x) const;

 private:
  /// The cosines and sines of rotary positions, [n, d/2] or [b, 1, m, d/2] f32; empty: none.
  struct Rotation {
    OnnxValue cosine, sine;
  };
  /// What a kind of attention works with.
  struct Inputs {
    OnnxValue x;  // [b, n, hidden]
    OnnxValue q;  // [b, h, n, d]
    OnnxValue k;  // [b, h, d, n]
    OnnxValue v;  // [b, h, n, d]
  };
  void find_segments(const OnnxTokens& tokens);
  void find_equal_segments();
  void find_rotations(const OnnxTokens& tokens, const OnnxValue& place);
  Rotation rotation(const OnnxValue& places, double theta) const;
  OnnxValue rotated(const OnnxValue& x, const Rotation& by) const;
  OnnxValue range(const OnnxValue& end) const;
  OnnxValue hidden(const OnnxValue& seen) const;
  OnnxValue unsqueeze(const OnnxValue& x, const std::vector<std::int64_t>& axes) const;
  OnnxValue transpose(const OnnxValue& x, const std::vector<std::int64_t>& axes) const;
  OnnxValue heads(const OnnxValue& x) const;
  OnnxValue transposed(const OnnxValue& x) const;
  OnnxValue scaled(const OnnxValue& x) const;
  OnnxValue softmax(const OnnxValue& scores, const OnnxValue& bias) const;
  OnnxValue attend(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                   const OnnxValue& bias) const;
  OnnxValue normalised(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v) const;
  OnnxValue method(AttentionKind kind, bool in_window, const Inputs& in) const;
  OnnxValue beside_window(const OnnxValue& all, const Inputs& in) const;
  OnnxValue nystrom(const Inputs& in) const;
  OnnxValue pseudo_inverse(const OnnxValue& a) const;
  OnnxValue double_softmax(const Inputs& in) const;
  OnnxValue linear(const Inputs& in) const;
  OnnxValue performer(const Inputs& in) const;
  OnnxValue linformer(const Inputs& in) const;
  OnnxValue convolution(const OnnxValue& v) const;

  OnnxModules& modules_;
  OnnxGraph& graph_;
  const ModelConfig& config_;
  bool padding_is_absent_;            // semantics nystrom
  OnnxValue length_;                  // [1] i64: n
  OnnxValue rows_;                    // [b, n, 1] f32: 1 at tokens
  OnnxValue columns_;                 // [b, 1, 1, n] f32: the same
  Rotation everywhere_, local_;       // of tokens, and of those in layers with a window
  Rotation middles_;                  // of landmarks
  OnnxValue empty_;                   // [b, 1, 1, 1] f32: 1 for a row without tokens
  OnnxValue same_;                    // [m, m] boolean: the diagonal
  std::vector<OnnxValue> multiples_;  // 7, 15 and 13 times the identity, [m, m] f32
  // Added to scores: -1e30 hides a key.
  OnnxValue padding_;   // [b, 1, 1, n]: hides padding
  OnnxValue far_;       // [b, 1, n, n]: hides padding and what lies outside of the window
  OnnxValue segments_;  // [b or 1, m, n]: the weights of each segment's mean
  // In a row of at most m tokens each segment is one token or none. There a landmark reads its own
  // token alone, and the matrix to invert is the identity: attention to landmarks is then exact.
  OnnxValue outside_;  // [b, 1, m, n] hides what a landmark does not read
  OnnxValue other_;    // [b, 1, m, m] hides other landmarks; empty for semantics transformers
  OnnxValue empty_segments_;  // [b, 1, 1, m] hides segments without tokens; as other_
};

}  // namespace nystrom
