#include "train/export/onnx_modules.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/ops.h"
#include "nn/baselines.h"

namespace nystrom {
namespace {

using Axes = std::vector<std::int64_t>;

/// The attention of all layers: what they share is computed once. b rows, n positions, h heads, d
/// head width, m landmarks.
class OnnxAttentionNodes {
 public:
  OnnxAttentionNodes(OnnxModules& modules, const OnnxTokens& tokens)
      : modules_(modules),
        graph_(modules.graph),
        config_(modules.model.config()),
        padding_is_absent_(config_.attention.semantics == Semantics::nystrom) {
    length_ = graph_("Shape", {tokens.valid}, {{"start", 1}, {"end", 2}});
    rows_ = unsqueeze(tokens.ones, {2});
    columns_ = unsqueeze(tokens.ones, {1, 2});
    const OnnxValue none = graph_("Equal", {tokens.count, graph_.integer(0)});
    empty_ = unsqueeze(graph_.cast(none, OnnxType::f32), {2, 3});
    padding_ = hidden(unsqueeze(tokens.valid, {1, 2}));
    const OnnxValue place = range(graph_("Squeeze", {length_}));
    if (config_.attention.window) {
      const OnnxValue distance = graph_("Abs", {graph_("Sub", {unsqueeze(place, {1}), place})});
      const OnnxValue reach = graph_.integer(*config_.attention.window / 2);
      far_ = graph_("Min", {padding_, hidden(graph_("LessOrEqual", {distance, reach}))});
    }
    if (config_.positions == Positions::rope) find_rotations(tokens, place);
    if (!config_.has_kind(AttentionKind::nystrom)) return;
    const OnnxValue landmark = range(graph_.integer(config_.attention.num_landmarks));
    same_ = graph_("Equal", {unsqueeze(landmark, {1}), landmark});
    const OnnxValue identity = graph_.cast(same_, OnnxType::f32);
    for (const int factor : {7, 15, 13})
      multiples_.push_back(graph_("Mul", {identity, graph_.number(factor)}));
    if (padding_is_absent_)
      find_segments(tokens);
    else if (config_.fixed_length())
      find_equal_segments();
  }

  OnnxValue operator()(std::int64_t layer, const OnnxValue& x) const {
    const AttentionKind kind = config_.kind_of(layer);
    const bool in_window = config_.has_window(layer);
    OnnxValue values = modules_.linear(x, "value");
    if (padding_is_absent_) values = graph_("Mul", {values, rows_});
    const OnnxValue v = heads(values);
    const Rotation& by = in_window && kind == AttentionKind::softmax ? local_ : everywhere_;
    const OnnxValue q = rotated(heads(modules_.linear(x, "query")), by),
                    k = rotated(heads(modules_.linear(x, "key")), by);
    OnnxValue y = method(kind, in_window, {x, q, transposed(k), v});
    if (config_.attention.conv_kernel_size) y = graph_("Add", {y, convolution(v)});
    return graph_("Reshape",
                  {transpose(y, {0, 2, 1, 3}), graph_.integers({0, 0, config_.hidden_size})});
  }

 private:
  /// The cosines and sines of rotary positions, [n, d/2] or [b, 1, m, d/2] f32; empty: none.
  struct Rotation {
    OnnxValue cosine, sine;
  };
  /// The inputs of a kind of attention.
  struct Inputs {
    OnnxValue x;  // [b, n, hidden]
    OnnxValue q;  // [b, h, n, d]
    OnnxValue k;  // [b, h, d, n]
    OnnxValue v;  // [b, h, n, d]
  };

  /// Of l tokens, token r is in segment floor(((r + 1)·m − 1) / l).
  void find_segments(const OnnxTokens& tokens) {
    const OnnxValue m = graph_.integer(config_.attention.num_landmarks);
    const OnnxValue last = graph_("Sub", {graph_("Mul", {tokens.places, m}), graph_.integer(1)});
    const OnnxValue count = graph_("Max", {tokens.count, graph_.integer(1)});
    const OnnxValue segment = unsqueeze(graph_("Div", {last, count}), {1});
    const OnnxValue landmark = unsqueeze(range(m), {1});
    const OnnxValue valid = unsqueeze(tokens.valid, {1});
    const OnnxValue inside = graph_("And", {graph_("Equal", {segment, landmark}), valid});
    const OnnxValue weights = graph_.cast(inside, OnnxType::f32);
    const OnnxValue sizes = graph_("ReduceSum", {weights, graph_.integers({2})}, {{"keepdims", 0}});
    segments_ = graph_("Div", {weights, unsqueeze(graph_("Max", {sizes, graph_.number(1)}), {2})});
    empty_segments_ = hidden(unsqueeze(graph_("Greater", {sizes, graph_.number(0)}), {1, 2}));
    const OnnxValue many = unsqueeze(graph_("Greater", {tokens.count, m}), {2});  // [b, 1, 1]
    const OnnxValue read = graph_("And", {valid, graph_("Or", {inside, many})});
    outside_ = hidden(unsqueeze(read, {1}));
    other_ = hidden(unsqueeze(graph_("Or", {same_, many}), {1}));
  }

  /// Segments of n / m positions of the padded row.
  void find_equal_segments() {
    const std::int64_t n = *config_.fixed_length(), m = config_.attention.num_landmarks;
    const OnnxValue segment = graph_("Div", {range(graph_.integer(n)), graph_.integer(n / m)});
    const OnnxValue inside = graph_("Equal", {segment, unsqueeze(range(graph_.integer(m)), {1})});
    segments_ = graph_(
        "Div", {graph_.cast(inside, OnnxType::f32), graph_.number(static_cast<double>(n / m))});
    outside_ = padding_;
  }

  /// A landmark's place is the middle of its segment: that of tokens floor(i·l / m) to
  /// floor((i + 1)·l / m) − 1.
  void find_rotations(const OnnxTokens& tokens, const OnnxValue& place) {
    const OnnxValue places = unsqueeze(graph_.cast(place, OnnxType::f32), {1});
    everywhere_ = rotation(places, config_.rope_theta);
    local_ = rotation(places, config_.local_rope_theta.value_or(config_.rope_theta));
    const OnnxValue m = graph_.integer(config_.attention.num_landmarks);
    const OnnxValue landmark = range(m);
    const auto begin_of = [&](const OnnxValue& segment) {
      return graph_("Div", {graph_("Mul", {segment, tokens.count}), m});
    };
    const OnnxValue ends = begin_of(graph_("Add", {landmark, graph_.integer(1)}));
    const OnnxValue last = graph_("Sub", {ends, graph_.integer(1)});
    const OnnxValue twice = graph_.cast(graph_("Add", {begin_of(landmark), last}), OnnxType::f32);
    const OnnxValue middles = graph_("Mul", {twice, graph_.number(0.5)});  // [b, m]
    middles_ = rotation(unsqueeze(middles, {1, 3}), config_.rope_theta);
  }

  /// Of places [·, 1] f32, as rotary_table() computes it.
  Rotation rotation(const OnnxValue& places, double theta) const {
    const std::vector<float> frequencies = rotary_frequencies(config_.head_dim(), theta);
    const OnnxValue weight = f32_weight(graph_, fmt::format("rotary_frequencies.{}", theta),
                                        Tensor::from(frequencies, {std::ssize(frequencies)}));
    const OnnxValue angles = graph_("Mul", {places, weight});
    return {graph_("Cos", {angles}), graph_("Sin", {angles})};
  }

  /// x [b, h, ·, d] with columns i and i + d/2 turned by their angles (Su et al., arXiv
  /// 2104.09864).
  OnnxValue rotated(const OnnxValue& x, const Rotation& by) const {
    if (by.cosine.empty()) return x;
    const std::int64_t half = config_.head_dim() / 2;
    const std::vector<OnnxValue> parts =
        graph_.outputs(2, "Split", {x, graph_.integers({half, half})}, {{"axis", 3}});
    const auto sum = [&](const char* op, const OnnxValue& a, const OnnxValue& b) {
      return graph_(op, {graph_("Mul", {a, by.cosine}), graph_("Mul", {b, by.sine})});
    };
    return graph_("Concat", {sum("Sub", parts[0], parts[1]), sum("Add", parts[1], parts[0])},
                  {{"axis", 3}});
  }

  OnnxValue range(const OnnxValue& end) const {
    return graph_("Range", {graph_.integer(0), end, graph_.integer(1)});
  }

  /// The term that is added to scores: 0 where `seen`.
  OnnxValue hidden(const OnnxValue& seen) const {
    return graph_("Where", {seen, graph_.number(0), graph_.number(-1e30)});
  }

  OnnxValue unsqueeze(const OnnxValue& x, const Axes& axes) const {
    return graph_("Unsqueeze", {x, graph_.integers(axes)});
  }

  OnnxValue transpose(const OnnxValue& x, const Axes& axes) const {
    return graph_("Transpose", {x}, {{"perm", axes}});
  }

  /// [b, n, hidden] → [b, h, n, d].
  OnnxValue heads(const OnnxValue& x) const {
    const OnnxValue shape =
        graph_.integers({0, 0, config_.num_attention_heads, config_.head_dim()});
    return transpose(graph_("Reshape", {x, shape}), {0, 2, 1, 3});
  }

  /// [b, h, n, d] → [b, h, d, n].
  OnnxValue transposed(const OnnxValue& x) const { return transpose(x, {0, 1, 3, 2}); }

  /// x / √d.
  OnnxValue scaled(const OnnxValue& x) const {
    return graph_("Mul",
                  {x, graph_.number(1 / std::sqrt(static_cast<double>(config_.head_dim())))});
  }

  OnnxValue softmax(const OnnxValue& scores, const OnnxValue& bias) const {
    return graph_("Softmax", {bias.empty() ? scores : graph_("Add", {scores, bias})},
                  {{"axis", -1}});
  }

  /// softmax(q k + bias) v for q [b, h, ·, d], k [b, h, d, ·], v [b, h, ·, d].
  OnnxValue attend(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                   const OnnxValue& bias) const {
    return graph_("MatMul", {softmax(graph_("MatMul", {q, k}), bias), v});
  }

  OnnxValue method(AttentionKind kind, bool in_window, const Inputs& in) const {
    switch (kind) {
      case AttentionKind::double_softmax: return double_softmax(in);
      case AttentionKind::linear: return linear(in);
      case AttentionKind::performer: return performer(in);
      case AttentionKind::linformer: return linformer(in);
      case AttentionKind::softmax:
        return attend(scaled(in.q), in.k, in.v, in_window ? far_ : padding_);
      case AttentionKind::none:      // such layers do not ask
      case AttentionKind::reformer:  // by onnx_obstacle
      case AttentionKind::nystrom: break;
    }
    const OnnxValue y =
        segments_.empty() ? attend(scaled(in.q), in.k, in.v, padding_) : nystrom(in);
    return in_window ? beside_window(y, in) : y;
  }

  /// The share (1 + tanh g) / 2 of attention in the window, and the rest of `all`.
  OnnxValue beside_window(const OnnxValue& all, const Inputs& in) const {
    const OnnxValue gate = graph_("Tanh", {modules_.parameter("window_gate")});
    const OnnxValue half =
        graph_("Mul", {graph_("Add", {gate, graph_.number(1)}), graph_.number(0.5)});
    const OnnxValue local = attend(scaled(in.q), in.k, in.v, far_);
    return graph_("Add",
                  {all, graph_("Mul", {unsqueeze(half, {1, 2}), graph_("Sub", {local, all})})});
  }

  /// softmax(q Ksᵀ) · A⁺ · softmax(Qs kᵀ) v with A = softmax(Qs Ksᵀ), from the right.
  OnnxValue nystrom(const Inputs& in) const {
    const AttentionConfig& options = config_.attention;
    const OnnxValue means = graph_("MatMul", {segments_, in.x});
    const auto landmarks = [&](const char* by) {
      return rotated(heads(modules_.linear(means, by)), middles_);
    };
    const OnnxValue keys = landmarks("key"), ks = scaled(transposed(keys));
    const OnnxValue qs =
        options.landmark_source == LandmarkSource::keys ? keys : landmarks("query");
    OnnxValue y = attend(scaled(qs), in.k, in.v, outside_);
    if (options.inverse != Inverse::identity) {
      const OnnxValue a = softmax(graph_("MatMul", {qs, ks}), other_);
      y = graph_("MatMul", {pseudo_inverse(a), y});
    }
    return attend(in.q, ks, y, empty_segments_);
  }

  /// z ← ¼ z (13 I − az (15 I − az (7 I − az))), from z = aᵀ over the largest column sum.
  OnnxValue pseudo_inverse(const OnnxValue& a) const {
    const OnnxValue sums = graph_("ReduceSum", {a, graph_.integers({-2})}, {{"keepdims", 1}});
    const OnnxValue largest =
        padding_is_absent_ ? graph_("ReduceMax", {sums}, {{"axes", Axes{-1}}, {"keepdims", 1}})
                           : graph_("ReduceMax", {sums}, {{"keepdims", 0}});  // of the whole batch
    OnnxValue z = graph_("Div", {transposed(a), largest});
    for (std::int64_t i = 0; i < config_.attention.inverse_iterations; ++i) {
      const OnnxValue az = graph_("MatMul", {a, z});
      OnnxValue t = az;
      for (const auto& [factor, multiple] : {std::pair(az, 0), {az, 1}, {z, 2}})
        t = graph_("MatMul", {factor, graph_("Sub", {multiples_[multiple], t})});
      z = graph_("Mul", {t, graph_.number(0.25)});
    }
    return z;
  }

  /// softmax(q over features) · softmax(k over positions)ᵀ · v.
  OnnxValue double_softmax(const Inputs& in) const {
    const OnnxValue context = graph_("MatMul", {softmax(in.k, padding_), in.v});
    return graph_("MatMul", {softmax(in.q, ""), context});
  }

  /// q (k v) / q (k 1) for features q [b, h, n, r] and k [b, h, r, n].
  OnnxValue normalised(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v) const {
    const OnnxValue tokens = graph_("Mul", {k, columns_});
    const OnnxValue sums = graph_("ReduceSum", {tokens, graph_.integers({-1})}, {{"keepdims", 1}});
    const OnnxValue total = graph_("Add", {graph_("MatMul", {q, sums}), empty_});
    return graph_("Div", {graph_("MatMul", {q, graph_("MatMul", {tokens, v})}), total});
  }

  /// The features elu(x) + 1. Those with a sum below 1 are brought to 1, which cancels; their
  /// products would round to 0.
  OnnxValue linear(const Inputs& in) const {
    const auto features = [&](const OnnxValue& x, const OnnxValue& scores, const Axes& axes) {
      const OnnxValue log_sums =
          graph_("ReduceLogSumExp", {scores}, {{"axes", axes}, {"keepdims", 1}});
      const OnnxValue lift = graph_("Relu", {graph_("Neg", {log_sums})});
      return graph_("Add", {graph_("Elu", {graph_("Add", {x, lift})}), graph_.number(1)});
    };
    const OnnxValue keys = features(in.k, graph_("Add", {in.k, padding_}), {2, 3});
    return normalised(features(in.q, in.q, {3}), keys, in.v);
  }

  /// Random features exp(w x − |x|²/2) of x / d^¼. The shift cancels; it prevents an overflow.
  OnnxValue performer(const Inputs& in) const {
    const std::string name = graph_.path("features");
    const auto d = static_cast<double>(config_.head_dim());
    const Tensor directions =
        orthogonal_features(static_cast<std::uint64_t>(config_.attention.random_seed), name,
                            config_.attention.num_features, config_.head_dim())
            .cast(DType::f32);
    const OnnxValue w =
        graph_("Mul", {f32_weight(graph_, name, directions), graph_.number(std::pow(d, -0.25))});
    const OnnxValue squares =
        graph_("ReduceSumSquare", {in.k}, {{"axes", Axes{2}}, {"keepdims", 1}});
    const OnnxValue halves = graph_("Mul", {squares, graph_.number(0.5 / std::sqrt(d))});
    const OnnxValue products = graph_("Sub", {graph_("MatMul", {w, in.k}), halves});
    const OnnxValue scores = graph_("Add", {products, padding_});  // [b, h, r, n]
    const OnnxValue shift =
        graph_("ReduceLogSumExp", {scores}, {{"axes", Axes{3}}, {"keepdims", 1}});
    const OnnxValue k = graph_("Exp", {graph_("Sub", {scores, shift})});
    const OnnxValue q = graph_("MatMul", {in.q, transpose(w, {1, 0})});
    return normalised(softmax(q, transpose(shift, {0, 1, 3, 2})), k, in.v);
  }

  /// Attention to keys and values that are projected along the sequence.
  OnnxValue linformer(const Inputs& in) const {
    const auto projection = [&](const char* name) {
      const auto module = graph_.enter(name);
      return graph_("Slice", {modules_.parameter("weight"), graph_.integers({0}), length_,
                              graph_.integers({-1})});
    };
    const bool shared = config_.attention.projection_sharing == ProjectionSharing::shared;
    const OnnxValue by_keys =
        transpose(projection("key_projection"), shared ? Axes{1, 0} : Axes{0, 2, 1});
    const OnnxValue k = graph_("MatMul", {graph_("Mul", {in.k, columns_}), by_keys});
    return attend(scaled(in.q), k, graph_("MatMul", {projection("value_projection"), in.v}), "");
  }

  /// The filter of each head, along the sequence of its values.
  OnnxValue convolution(const OnnxValue& v) const {
    const auto module = graph_.enter("conv");
    const std::int64_t taps = *config_.attention.conv_kernel_size, side = taps / 2;
    return graph_("Conv", {v, modules_.parameter("weight")},
                  {{"group", config_.num_attention_heads},
                   {"kernel_shape", Axes{taps, 1}},
                   {"pads", Axes{side, 0, side, 0}}});
  }

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

}  // namespace

OnnxTokens onnx_tokens(OnnxGraph& graph, const OnnxValue& mask) {
  const OnnxValue valid = graph.cast(mask, OnnxType::boolean);
  const OnnxValue counted = graph.cast(valid, OnnxType::i64);
  return {valid, graph.cast(valid, OnnxType::f32), graph("CumSum", {counted, graph.integer(1)}),
          graph("ReduceSum", {counted, graph.integers({1})}, {{"keepdims", 1}})};
}

OnnxAttention onnx_attention(OnnxModules& modules, const OnnxTokens& tokens) {
  return OnnxAttentionNodes(modules, tokens);
}

}  // namespace nystrom
