#include "nn/attention.h"

#include <cmath>

#include "nn/feature_attention.h"
#include "nn/linformer.h"
#include "nn/nystrom.h"
#include "nn/reformer.h"

namespace nystrom {

Var split_heads(const Var& x, std::int64_t heads) {
  const Var split = reshape(x, x.shape().without(-1).append(heads).append(x.dim(-1) / heads));
  return split.rank() == 4 ? transpose(split, 1, 2) : split;
}

Var merge_heads(const Var& x) {
  const Var rows = x.rank() == 4 ? transpose(x, 1, 2) : x;
  return reshape(rows, rows.shape().without(-1).without(-1).append(rows.dim(-2) * rows.dim(-1)));
}

std::unique_ptr<AttentionMethod> make_attention(const Scope& scope, const ModelConfig& config) {
  switch (config.attention.kind) {
    case AttentionKind::nystrom: return std::make_unique<NystromAttention>(config);
    case AttentionKind::softmax: return std::make_unique<SoftmaxAttention>(config);
    case AttentionKind::double_softmax: return std::make_unique<DoubleSoftmaxAttention>();
    case AttentionKind::linear: return std::make_unique<LinearAttention>();
    case AttentionKind::performer: return std::make_unique<PerformerAttention>(scope, config);
    case AttentionKind::linformer: return std::make_unique<LinformerAttention>(scope, config);
    case AttentionKind::reformer: return std::make_unique<ReformerAttention>(scope, config);
  }
  return nullptr;
}

SoftmaxAttention::SoftmaxAttention(const ModelConfig& config)
    : scale_(1 / std::sqrt(static_cast<double>(config.head_dim()))),
      empty_rows_(config.attention.semantics == Semantics::transformers ? EmptyRows::uniform
                                                                        : EmptyRows::zero) {}

Var SoftmaxAttention::operator()(const AttentionInputs& in) const { return of(in.batch.all(), in); }

Var SoftmaxAttention::of(const SequenceSpans& sequences, const AttentionInputs& in) const {
  return attention(in.queries, in.keys, in.values,
                   {.scale = scale_,
                    .out = in.queries.dtype(),
                    .queries = sequences.queries,
                    .keys = sequences.keys,
                    .key_mask = in.batch.key_mask(),
                    .empty_rows = empty_rows_});
}

Var DenseAttention::operator()(const AttentionInputs& in) const {
  if (in.batch.dense()) return of_tokens(in.queries, in.keys, in.values, in.batch.places(0));
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
      out = of_tokens(sequence(in.queries, rows), sequence(in.keys, tokens),
                      sequence(in.values, tokens), in.batch.places(i));
    const std::int64_t computed = tokens.size() > 0 ? out.dim(2) : 0;
    if (computed < rows.size())
      parts.push_back(Tensor::zeros({rows.size() - computed, heads, width}, in.values.dtype(),
                                    in.values.value().device()));
    if (computed > 0) parts.push_back(reshape(transpose(out, 1, 2), {computed, heads, width}));
  }
  return concat(parts, 0);
}

SelfAttention::SelfAttention(const Scope& scope, const ModelConfig& config)
    : heads_(config.num_attention_heads),
      projections_(adjacent_linears(scope,
                                    config.attention.kind == AttentionKind::reformer
                                        ? std::vector<std::string>{"query", "value"}
                                        : std::vector<std::string>{"query", "key", "value"},
                                    config.hidden_size, config.hidden_size)),
      method_(make_attention(scope, config)) {
  if (config.attention.conv_kernel_size)
    conv_ =
        (scope / "conv").parameter("weight", {heads_, 1, *config.attention.conv_kernel_size, 1});
}

bool SelfAttention::fuses(const Var& x, const Ragged& batch, const RunContext& run) const {
  // On CPUs, where launches cost nothing, the same batch gives the same bits however it is divided
  // and observed.
  return !x.value().device().is_cpu() && projections_.size() == 3 && method_->fuses(batch) &&
         (!conv_ || batch.without_gaps()) && !run.observe_attention && !query().weight().is_int8();
}

Var SelfAttention::convolve(const Var& v, const Ragged& batch) const {
  const Var taps = reshape(*conv_, {heads_, conv_->shape()[2]});
  const auto rows = [&](const Var& x) {
    return reshape(x, x.shape().without(-1).append(heads_).append(x.dim(-1) / heads_));
  };
  if (batch.dense() || batch.without_gaps())
    return sequence_conv(rows(v), taps, batch.all().queries);
  // The convolution runs along positions. Those without a token count as 0.
  return batch.rows_of(sequence_conv(rows(batch.tokens_in_places(v)), taps));
}

Var SelfAttention::operator()(const Var& x, const Ragged& batch, const RunContext& run) const {
  if (fuses(x, batch, run)) {
    const Var qkv = joint_linear(x, {query().weight(), key().weight(), value().weight()},
                                 {query().bias(), key().bias(), value().bias()});
    return method_->fused({x, qkv, conv_ ? conv_->var() : Var(), batch, query(), key()});
  }
  const Var q = query()(x), k = projections_.size() == 2 ? q : key()(x), v = value()(x);
  const AttentionInputs inputs{
      x,    split_heads(q, heads_), split_heads(k, heads_), split_heads(v, heads_), batch, query(),
      key()};
  Var output = (*method_)(inputs);
  if (run.observe_attention) run.observe_attention(inputs, output);
  if (!conv_) return merge_heads(output);
  const Var rows = output.rank() == 4 ? transpose(output, 1, 2) : output;
  return reshape(rows + convolve(v, batch), x.shape());
}

}  // namespace nystrom
