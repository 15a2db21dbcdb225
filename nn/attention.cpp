#include "nn/attention.h"

#include <cmath>

#include "nn/feature_attention.h"
#include "nn/linformer.h"
#include "nn/nystrom.h"
#include "nn/reformer.h"

namespace nystrom {

Var split_heads(const Var& x, std::int64_t heads) {
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), 1, 2);
}

Var merge_heads(const Var& x) {
  return reshape(transpose(x, 1, 2), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
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

Var SoftmaxAttention::operator()(const AttentionInputs& in) const {
  return attention(in.queries, in.keys, in.values,
                   {scale_, in.mask.valid(), empty_rows_, in.queries.dtype()});
}

SelfAttention::SelfAttention(const Scope& scope, const ModelConfig& config)
    : heads_(config.num_attention_heads),
      conv_sees_padding_(config.attention.semantics == Semantics::transformers),
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

bool SelfAttention::fuses(const Var& rows, const SequenceMask& mask, const RunContext& run) const {
  // On CPUs, where launches cost nothing, the same batch gives the same bits however it is divided
  // and observed.
  return !rows.value().device().is_cpu() && projections_.size() == 3 && method_->fuses(mask) &&
         !run.observe_attention && !query().weight().is_int8();
}

Var SelfAttention::operator()(const Var& rows, const SequenceMask& mask, const TokenRows& tokens,
                              const RunContext& run) const {
  const auto in_places = [&](const Var& y) { return tokens.in_places(y, mask); };
  if (fuses(rows, mask, run)) {
    const Var qkv = joint_linear(rows, {query().weight(), key().weight(), value().weight()},
                                 {query().bias(), key().bias(), value().bias()});
    return tokens.rows_of(method_->fused(
        {in_places(rows), in_places(qkv), conv_ ? conv_->var() : Var(), mask, query(), key()}));
  }
  const bool shared = projections_.size() == 2;
  const Var x = in_places(rows), q = in_places(query()(rows)),
            k = shared ? q : in_places(key()(rows)), v = in_places(value()(rows));
  const AttentionInputs inputs{
      x,    split_heads(q, heads_), split_heads(k, heads_), split_heads(v, heads_), mask, query(),
      key()};
  Var output = (*method_)(inputs);
  if (run.observe_attention) run.observe_attention(inputs, output);
  const Var heads = transpose(output, 1, 2);  // [b, n, h, d]
  if (!conv_) return tokens.rows_of(reshape(heads, x.shape()));
  const Tensor valid = conv_sees_padding_ ? Tensor{} : mask.valid();
  const Var skip = sequence_conv(reshape(v, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}),
                                 reshape(*conv_, {heads_, conv_->shape()[2]}), valid);
  return tokens.rows_of(reshape(heads + skip, x.shape()));
}

}  // namespace nystrom
