#include "nn/attention_map.h"

#include "core/check.h"
#include "nn/nystrom.h"

namespace nystrom {
namespace {

/// A row of an attention matrix, without the matrix: how much the first row of each head attends to
/// each row of its sequence, [h, n] in f64. Attention is linear in the values, so that this is the
/// gradient of that row's output. `inputs` are of one sequence.
Tensor first_attention_row(const AttentionMethod& method, const AttentionInputs& in) {
  require(in.batch.batch() == 1, "an attention row is that of one sequence, got {}",
          in.batch.batch());
  const bool dense = in.values.rank() == 4;
  const std::int64_t heads = in.values.dim(1), rows = in.values.dim(dense ? 2 : 0);
  Shape one_wide = in.values.shape();
  one_wide[dense ? 3 : 2] = 1;
  const Device device = in.values.value().device();
  const Var values = Var::leaf(Tensor::zeros(one_wide, in.values.dtype(), device));
  Tape tape;
  AttentionInputs constant = in.with_values(values);
  for (Var* x : {&constant.hidden, &constant.queries, &constant.keys}) *x = x->detach();
  const Var out = method(constant);
  Tensor first = Tensor::zeros(out.shape(), DType::f64);
  for (std::int64_t head = 0; head < heads; ++head)
    first.data<double>()[dense ? head * rows : head] = 1;
  tape.backward(out, first.cast(out.dtype()).to(device));
  const Tensor gradient = values.grad().to(cpu_device).cast(DType::f64);
  return (dense ? gradient : gradient.transpose(0, 1)).contiguous().reshape({heads, rows});
}

}  // namespace

std::string attention_map_obstacle(const ModelConfig& config) {
  if (config.head != Head::sequence_classification || !config.embed_dim)
    return "it does not classify features";
  if (config.pooling == Pooling::attention) return "";
  if (config.pooling != Pooling::token)
    return fmt::format("its pooling is {}, and rows have scores with pooling token or attention",
                       enum_name(config.pooling));
  for (std::int64_t layer = config.num_hidden_layers; layer-- > 0;) {
    const AttentionKind kind = config.kind_of(layer);
    if (kind == AttentionKind::none) continue;
    if (kind == AttentionKind::nystrom && config.has_window(layer))
      return "its last attention mixes a window with landmarks (attention.window), and has no one "
             "row of scores";
    if (kind == AttentionKind::nystrom || kind == AttentionKind::softmax) return "";
    return fmt::format("its last attention is {}, and nystrom and softmax have rows of scores",
                       enum_name(kind));
  }
  return "it has no attention";
}

Tensor attention_map(const Model& model, ModelInput input) {
  const ModelConfig& config = model.config();
  const std::string obstacle = attention_map_obstacle(config);
  require_input(obstacle.empty(), "the model has no attention map: {}", obstacle);
  Tensor scores;
  RunContext run;
  run.logits_only = true;
  run.observe_pooling = [&](const Tensor& weights) { scores = weights; };
  std::int64_t left = 0, last = 0;  // layers with attention
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    if (config.kind_of(layer) != AttentionKind::none) ++left, last = layer;
  if (config.has_class_token())
    run.observe_attention = [&](const AttentionInputs& in, Var&) {
      if (--left > 0) return;
      ParameterStore none;
      const auto method = make_attention(Scope(none) / "map", config.of_layer(last));
      const Tensor heads = first_attention_row(*method, in);
      const std::int64_t rows = heads.dim(1) - 1;
      std::vector<double> means(static_cast<std::size_t>(rows));
      for (std::int64_t head = 0; head < heads.dim(0); ++head)
        for (std::int64_t row = 0; row < rows; ++row)
          means[static_cast<std::size_t>(row)] +=
              heads.data<double>()[head * (rows + 1) + row + 1] / static_cast<double>(heads.dim(0));
      scores = Tensor::from(means, {rows});
    };
  model(std::move(input), run);
  return scores;
}

}  // namespace nystrom
