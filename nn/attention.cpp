#include "nn/attention.h"

#include <cmath>

#include "core/check.h"
#include "nn/baselines.h"
#include "nn/nystrom.h"

namespace nystrom {
namespace {

/// The convolution of values [r, h, d] or [b, h, n, d]: rows [r, h · d] or [b, n, h · d].
Var convolution(const Parameter& weight, const Var& values, const Ragged& batch) {
  const std::int64_t heads = weight.shape()[0];
  const Var taps = reshape(weight, {heads, weight.shape()[2]});
  const Var rows = values.rank() == 4 ? transpose(values, 1, 2) : values;
  // Positions without a token count as 0.
  const Var y = batch.without_gaps()
                    ? sequence_conv(rows, taps, batch.all().queries)
                    : batch.rows_of(sequence_conv(batch.in_places(rows, true), taps));
  return reshape(y, y.shape().without(-1).without(-1).append(heads * y.dim(-1)));
}

/// A window beside attention to all tokens: g · l + (1 − g) · a, where l is the attention to the
/// window, a the other one, and g in (0, 1) a learned number of each head: Nyström attention and
/// attention.window in one layer.
class WindowBeside : public AttentionMethod {
 public:
  /// Of a layer with attention.window; its kind is that of the other attention.
  WindowBeside(const Scope& scope, const ModelConfig& config)
      : all_(make_attention(scope, config.without_window())),
        window_(config),
        gate_(scope.parameter("window_gate", {config.num_attention_heads}, {Init::Kind::zeros},
                              false)) {}
  Var operator()(const AttentionInputs& in) const override {
    const Var all = (*all_)(in), local = window_(in);
    const Var gate = cast((tanh(gate_.var()) + 1) / 2, all.dtype());
    const Shape shape = in.batch.dense() ? Shape{gate.dim(0), 1, 1} : Shape{gate.dim(0), 1};
    return all + reshape(gate, shape) * (local - all);
  }

 private:
  std::unique_ptr<AttentionMethod> all_;
  SoftmaxAttention window_;
  Parameter gate_;  // [h]: g = (1 + tanh gate) / 2
};

/// An attention kind without a form for ragged rows: it computes sequence by sequence.
class DenseAttention : public AttentionMethod {
 public:
  explicit DenseAttention(TokenAttention of_tokens) : of_tokens_(std::move(of_tokens)) {}

  Var operator()(const AttentionInputs& in) const override {
    if (in.batch.dense()) return of_tokens_(in.queries, in.keys, in.values, in.batch.places(0));
    const std::int64_t heads = in.queries.dim(1), width = in.values.dim(2);
    const auto sequence = [](const Var& x, const RowRange& rows) {  // [1, h, n, d]
      const Var own = slice(x, 0, rows.begin, rows.end);
      return transpose(reshape(own, own.shape().with(0, 1)), 1, 2);
    };
    std::vector<Var> parts;
    for (std::int64_t i = 0; i < in.batch.batch(); ++i) {
      const RowRange rows = in.batch.rows(i), tokens = in.batch.tokens(i);
      Var out;
      if (tokens.size() > 0)
        out = of_tokens_(sequence(in.queries, rows), sequence(in.keys, tokens),
                         sequence(in.values, tokens), in.batch.places(i));
      const std::int64_t computed = tokens.size() > 0 ? out.dim(2) : 0;
      if (computed < rows.size())
        parts.push_back(Tensor::zeros({rows.size() - computed, heads, width}, in.values.dtype(),
                                      in.values.value().device()));
      if (computed > 0) parts.push_back(reshape(transpose(out, 1, 2), {computed, heads, width}));
    }
    return concat(parts, 0);
  }

 private:
  TokenAttention of_tokens_;
};

}  // namespace

std::unique_ptr<AttentionMethod> make_attention(const Scope& scope, const ModelConfig& config) {
  switch (config.attention.kind) {
    case AttentionKind::nystrom:
      if (config.attention.window) return std::make_unique<WindowBeside>(scope, config);
      if (auto nystrom = make_nystrom(config)) return nystrom;
      [[fallthrough]];
    case AttentionKind::softmax:
      return std::make_unique<SoftmaxAttention>(config, empty_rows_of(config));
    case AttentionKind::double_softmax:
      return std::make_unique<DenseAttention>(double_softmax_attention);
    case AttentionKind::linear: return std::make_unique<DenseAttention>(linear_attention);
    case AttentionKind::performer:
      return std::make_unique<DenseAttention>(performer_attention(scope, config));
    case AttentionKind::linformer:
      return std::make_unique<DenseAttention>(linformer_attention(scope, config));
    case AttentionKind::reformer:
      return std::make_unique<DenseAttention>(reformer_attention(scope, config));
    case AttentionKind::none: break;
  }
  return nullptr;
}

Var AttentionMethod::with_convolution(const AttentionInputs& in, const Parameter& taps) const {
  return merge_heads((*this)(in)) + convolution(taps, in.values, in.batch);
}

SoftmaxAttention::SoftmaxAttention(const ModelConfig& config, EmptyRows empty_rows)
    : scale_(1 / std::sqrt(static_cast<double>(config.head_dim()))),
      reach_(config.attention.window ? *config.attention.window / 2 : Scoring::all_keys),
      empty_rows_(empty_rows) {}

Var SoftmaxAttention::operator()(const AttentionInputs& in) const { return of(in.batch.all(), in); }

Var SoftmaxAttention::of(const SequenceSpans& sequences, const AttentionInputs& in,
                         const Var& others) const {
  return attention(in.queries, in.keys, in.values,
                   {.scale = scale_,
                    .out = in.queries.dtype(),
                    .queries = sequences.queries,
                    .keys = sequences.keys,
                    .key_mask = in.batch.key_mask(),
                    .empty_rows = empty_rows_,
                    .reach = reach_,
                    .others = others});
}

SelfAttention::SelfAttention(const Scope& scope, const ModelConfig& config)
    : has_window_(config.attention.window.has_value()),
      heads_(config.num_attention_heads),
      kind_(config.attention.kind),
      landmarks_(config.attention.num_landmarks),
      projections_(adjacent_linears(scope,
                                    kind_ == AttentionKind::reformer
                                        ? std::vector<std::string>{"query", "value"}
                                        : std::vector<std::string>{"query", "key", "value"},
                                    config.hidden_size, config.hidden_size, config.bias)),
      method_(make_attention(scope, config)) {
  if (config.attention.conv_kernel_size)
    taps_ =
        (scope / "conv").parameter("weight", {heads_, 1, *config.attention.conv_kernel_size, 1});
}

AttentionInputs SelfAttention::project(const Var& attending, const Var& x, const Ragged& batch,
                                       const Rotations& rotations) const {
  // On a GPU, where launches take time, Nyström attention is fused. Short sequences have none.
  if (kind_ == AttentionKind::nystrom && !x.value().device().is_cpu() &&
      !query().weight().is_int8() && batch.split(landmarks_).many) {
    Var qkv =
        joint_linear(x, {query().weight(), key().weight(), value().weight()},
                     {query().bias_or_zeros(), key().bias_or_zeros(), value().bias_or_zeros()});
    if (rotations.global.defined())
      qkv = merge_heads(
          rotate(split_heads(qkv, 3 * heads_), batch.all().queries, rotations.global, 2 * heads_));
    const auto part = [&](std::int64_t i) { return split_heads(qkv, heads_, i, 3); };
    return {x, part(0), part(1), part(2), batch, query(), key(), qkv, rotations.global_theta};
  }
  const bool is_local = has_window_ && kind_ == AttentionKind::softmax;
  const Tensor& table = is_local ? rotations.local : rotations.global;
  const auto heads = [&](const Linear& by, const Var& of) { return split_heads(by(of), heads_); };
  const auto rotated = [&](const Var& y) {
    return table.defined() ? rotate(y, batch.all().queries, table) : y;
  };
  const Var queries = rotated(heads(query(), attending)),
            keys = projections_.size() == 2 ? queries : rotated(heads(key(), x));
  return {x, queries, keys, heads(value(), x), batch, query(), key(), {}, rotations.global_theta};
}

bool SelfAttention::may_attend_alone(const Rotations& rotations) const {
  const bool by_rows = kind_ == AttentionKind::softmax || kind_ == AttentionKind::nystrom;
  return by_rows && !has_window_ && !rotations.global.defined() && !query().weight().is_int8();
}

Var SelfAttention::observed(const Var& rows, const Tensor& read, const Var& x, const Ragged& batch,
                            const RunContext& run) const {
  const auto rows_read = [read](const Var& heads) {
    return gather_rows(flat_rows(merge_heads(heads)), read);
  };
  const auto [inputs, output] = [&] {
    const NoGrad constant;
    const AttentionInputs all = project(x, x, batch, {});
    return std::pair(all, (*method_)(all).value());
  }();
  Var seen = record("all_rows", output, {rows}, [rows_read](const Tensor& dy, Grads grads) {
    grads.add(0, rows_read(dy).value());
  });
  run.observe_attention(inputs, seen);
  return record("rows_read", rows.value(), {seen},
                [rows_read, shape = output.shape()](const Tensor& dy, Grads grads) {
                  const Var all = Var::leaf(Tensor::zeros(shape, dy.dtype(), dy.device()));
                  Tape tape;
                  tape.backward(rows_read(all), dy);
                  grads.add(0, all.grad());
                });
}

Var SelfAttention::operator()(const Var& x, const Ragged& batch, const Rotations& rotations,
                              const std::optional<ReadRows>& read, const RunContext& run) const {
  require_input(!(has_window_ || rotations.global.defined()) || batch.without_gaps(),
                "attention_mask has padding before or between tokens, or a row without tokens; "
                "windows and rotary positions count places: put padding behind tokens, and leave "
                "out such rows");
  const auto chosen = [&](const Var& rows) { return read ? read->of(rows) : rows; };
  const bool for_observer = run.observe_attention && !run.training;
  if (read && read->attending && !for_observer && may_attend_alone(rotations)) {
    const AttentionInputs inputs = project(chosen(x), x, *read->attending, rotations);
    Var rows = merge_heads((*method_)(inputs));
    if (run.observe_attention) rows = observed(rows, read->rows, x, batch, run);
    return taps_ ? rows + chosen(convolution(*taps_, inputs.values, batch)) : rows;
  }
  const AttentionInputs inputs = project(x, x, batch, rotations);
  if (taps_ && !run.observe_attention) return chosen(method_->with_convolution(inputs, *taps_));
  Var output = (*method_)(inputs);
  if (run.observe_attention) run.observe_attention(inputs, output);
  const Var rows = merge_heads(output);
  return chosen(taps_ ? rows + convolution(*taps_, inputs.values, batch) : rows);
}

}  // namespace nystrom
