#include "train/export/onnx_attention.h"

#include <cmath>

#include "nn/feature_attention.h"

namespace nystrom {
namespace {

using Axes = std::vector<std::int64_t>;

}  // namespace

OnnxTokens onnx_tokens(OnnxGraph& graph, const OnnxValue& mask) {
  const OnnxValue valid = graph.cast(mask, OnnxType::boolean);
  const OnnxValue counted = graph.cast(valid, OnnxType::i64);
  return {valid, graph.cast(valid, OnnxType::f32), graph("CumSum", {counted, graph.integer(1)}),
          graph("ReduceSum", {counted, graph.integers({1})}, {{"keepdims", 1}})};
}

OnnxAttention::OnnxAttention(OnnxModules& modules, const OnnxTokens& tokens)
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
  if (!config_.has_kind(AttentionKind::nystrom)) return;
  const OnnxValue landmark = range(config_.attention.num_landmarks);
  same_ = graph_("Equal", {unsqueeze(landmark, {1}), landmark});
  const OnnxValue identity = graph_.cast(same_, OnnxType::f32);
  for (const int factor : {7, 15, 13})
    multiples_.push_back(graph_("Mul", {identity, graph_.number(factor)}));
  if (padding_is_absent_)
    find_segments(tokens);
  else if (config_.fixed_length())
    find_equal_segments();
}

/// Of l tokens, token r is in segment floor(((r + 1)·m − 1) / l).
void OnnxAttention::find_segments(const OnnxTokens& tokens) {
  const OnnxValue m = graph_.integer(config_.attention.num_landmarks);
  const OnnxValue last = graph_("Sub", {graph_("Mul", {tokens.places, m}), graph_.integer(1)});
  const OnnxValue count = graph_("Max", {tokens.count, graph_.integer(1)});
  const OnnxValue segment = unsqueeze(graph_("Div", {last, count}), {1});
  const OnnxValue landmark = unsqueeze(range(config_.attention.num_landmarks), {1});
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
void OnnxAttention::find_equal_segments() {
  const std::int64_t n = *config_.fixed_length(), m = config_.attention.num_landmarks;
  const OnnxValue segment = graph_("Div", {range(n), graph_.integer(n / m)});
  const OnnxValue inside = graph_("Equal", {segment, unsqueeze(range(m), {1})});
  segments_ = graph_(
      "Div", {graph_.cast(inside, OnnxType::f32), graph_.number(static_cast<double>(n / m))});
  outside_ = padding_;
}

OnnxValue OnnxAttention::range(std::int64_t end) const {
  return graph_("Range", {graph_.integer(0), graph_.integer(end), graph_.integer(1)});
}

/// What is added to scores: 0 where `seen`.
OnnxValue OnnxAttention::hidden(const OnnxValue& seen) const {
  return graph_("Where", {seen, graph_.number(0), graph_.number(-1e30)});
}

OnnxValue OnnxAttention::unsqueeze(const OnnxValue& x, const Axes& axes) const {
  return graph_("Unsqueeze", {x, graph_.integers(axes)});
}

OnnxValue OnnxAttention::transpose(const OnnxValue& x, const Axes& axes) const {
  return graph_("Transpose", {x}, {{"perm", axes}});
}

/// [b, n, hidden] → [b, n, h, d], with its axes in another order.
OnnxValue OnnxAttention::split(const OnnxValue& x, const Axes& axes) const {
  const OnnxValue shape = graph_.integers({0, 0, config_.num_attention_heads, config_.head_dim()});
  return transpose(graph_("Reshape", {x, shape}), axes);
}

/// x / √d.
OnnxValue OnnxAttention::scaled(const OnnxValue& x) const {
  return graph_("Mul", {x, graph_.number(1 / std::sqrt(static_cast<double>(config_.head_dim())))});
}

OnnxValue OnnxAttention::softmax(const OnnxValue& scores, const OnnxValue& bias) const {
  return graph_("Softmax", {bias.empty() ? scores : graph_("Add", {scores, bias})}, {{"axis", -1}});
}

/// softmax(q k + bias) v for q [b, h, ·, d], k [b, h, d, ·], v [b, h, ·, d].
OnnxValue OnnxAttention::attend(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                                const OnnxValue& bias) const {
  return graph_("MatMul", {softmax(graph_("MatMul", {q, k}), bias), v});
}

OnnxValue OnnxAttention::operator()(AttentionKind kind, const OnnxValue& x) const {
  OnnxValue values = modules_.linear(x, "value");
  if (padding_is_absent_) values = graph_("Mul", {values, rows_});
  const Axes heads{0, 2, 1, 3}, transposed{0, 2, 3, 1};
  const OnnxValue v = split(values, heads);
  const OnnxValue q = split(modules_.linear(x, "query"), heads),
                  k = split(modules_.linear(x, "key"), transposed);
  OnnxValue y = method(kind, {x, q, k, v});
  if (config_.attention.conv_kernel_size) y = graph_("Add", {y, convolution(v)});
  return graph_("Reshape", {transpose(y, heads), graph_.integers({0, 0, config_.hidden_size})});
}

OnnxValue OnnxAttention::method(AttentionKind kind, const Inputs& in) const {
  switch (kind) {
    case AttentionKind::double_softmax: return double_softmax(in);
    case AttentionKind::linear: return linear(in);
    case AttentionKind::performer: return performer(in);
    case AttentionKind::linformer: return linformer(in);
    default: break;
  }
  const bool exact = kind == AttentionKind::softmax || segments_.empty();
  return exact ? attend(scaled(in.q), in.k, in.v, padding_) : nystrom(in);
}

/// softmax(q Ksᵀ) · A⁺ · softmax(Qs kᵀ) v with A = softmax(Qs Ksᵀ), from the right.
OnnxValue OnnxAttention::nystrom(const Inputs& in) const {
  const AttentionConfig& options = config_.attention;
  const OnnxValue means = graph_("MatMul", {segments_, in.x});
  const OnnxValue keys = modules_.linear(means, "key");
  const OnnxValue queries =
      options.landmark_source == LandmarkSource::keys ? keys : modules_.linear(means, "query");
  const OnnxValue ks = scaled(split(keys, {0, 2, 3, 1})), qs = split(queries, {0, 2, 1, 3});
  OnnxValue y = attend(scaled(qs), in.k, in.v, outside_);
  if (options.inverse != Inverse::identity) {
    const OnnxValue a = softmax(graph_("MatMul", {qs, ks}), other_);
    y = graph_("MatMul", {pseudo_inverse(a), y});
  }
  return attend(in.q, ks, y, empty_segments_);
}

/// z ← ¼ z (13 I − az (15 I − az (7 I − az))), from z = aᵀ over the largest column sum.
OnnxValue OnnxAttention::pseudo_inverse(const OnnxValue& a) const {
  const OnnxValue sums = graph_("ReduceSum", {a, graph_.integers({-2})}, {{"keepdims", 1}});
  const OnnxValue largest =
      padding_is_absent_ ? graph_("ReduceMax", {sums}, {{"axes", Axes{-1}}, {"keepdims", 1}})
                         : graph_("ReduceMax", {sums}, {{"keepdims", 0}});  // of the whole batch
  OnnxValue z = graph_("Div", {transpose(a, {0, 1, 3, 2}), largest});
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
OnnxValue OnnxAttention::double_softmax(const Inputs& in) const {
  const OnnxValue context = graph_("MatMul", {softmax(in.k, padding_), in.v});
  return graph_("MatMul", {softmax(in.q, ""), context});
}

/// q (k v) / q (k 1) for features q [b, h, n, r] and k [b, h, r, n].
OnnxValue OnnxAttention::normalised(const OnnxValue& q, const OnnxValue& k,
                                    const OnnxValue& v) const {
  const OnnxValue tokens = graph_("Mul", {k, columns_});
  const OnnxValue sums = graph_("ReduceSum", {tokens, graph_.integers({-1})}, {{"keepdims", 1}});
  const OnnxValue total = graph_("Add", {graph_("MatMul", {q, sums}), empty_});
  return graph_("Div", {graph_("MatMul", {q, graph_("MatMul", {tokens, v})}), total});
}

/// The features elu(x) + 1.
OnnxValue OnnxAttention::linear(const Inputs& in) const {
  const auto features = [&](const OnnxValue& x) {
    return graph_("Add", {graph_("Elu", {x}), graph_.number(1)});
  };
  return normalised(features(in.q), features(in.k), in.v);
}

/// Random features exp(w x − |x|²/2) of x / d^¼. The shift cancels; it prevents an overflow.
OnnxValue OnnxAttention::performer(const Inputs& in) const {
  const std::string name = graph_.path("features");
  const auto d = static_cast<double>(config_.head_dim());
  const Tensor directions =
      orthogonal_features(static_cast<std::uint64_t>(config_.attention.random_seed), name,
                          config_.attention.num_features, config_.head_dim())
          .cast(DType::f32);
  const OnnxValue drawn = graph_.weight(name, OnnxType::f32, {directions.dim(0), directions.dim(1)},
                                        f32_bytes(directions));
  const OnnxValue w = graph_("Mul", {drawn, graph_.number(std::pow(d, -0.25))});
  const OnnxValue squares = graph_("ReduceSumSquare", {in.k}, {{"axes", Axes{2}}, {"keepdims", 1}});
  const OnnxValue halves = graph_("Mul", {squares, graph_.number(0.5 / std::sqrt(d))});
  const OnnxValue products = graph_("Sub", {graph_("MatMul", {w, in.k}), halves});
  const OnnxValue scores = graph_("Add", {products, padding_});  // [b, h, r, n]
  const OnnxValue shift = graph_("ReduceLogSumExp", {scores}, {{"axes", Axes{3}}, {"keepdims", 1}});
  const OnnxValue k = graph_("Exp", {graph_("Sub", {scores, shift})});
  const OnnxValue q = graph_("MatMul", {in.q, transpose(w, {1, 0})});
  return normalised(softmax(q, transpose(shift, {0, 1, 3, 2})), k, in.v);
}

/// Attention to keys and values that are projected along the sequence.
OnnxValue OnnxAttention::linformer(const Inputs& in) const {
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
OnnxValue OnnxAttention::convolution(const OnnxValue& v) const {
  const auto module = graph_.enter("conv");
  const std::int64_t taps = *config_.attention.conv_kernel_size, side = taps / 2;
  return graph_("Conv", {v, modules_.parameter("weight")},
                {{"group", config_.num_attention_heads},
                 {"kernel_shape", Axes{taps, 1}},
                 {"pads", Axes{side, 0, side, 0}}});
}

}  // namespace nystrom
