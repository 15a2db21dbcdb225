// Attention without a mask as cuDNN graphs. The operations have the order that cuDNN's fused
// engines expect.
#pragma once

#include "core/cuda/attention/cudnn_graph.h"

namespace nystrom::cuda {

/// The tensors of the graphs. The operands come first, in this order: bf16 [b, h, n, d] with unit
/// columns, and log_sum_exp, contiguous f32 [b, h, n]. scale and one (1) are f32 on the host. inner
/// is f32 [b, h, n] of working memory.
enum AttentionId : std::int64_t {
  id_q = 1,
  id_k,
  id_v,
  id_out,
  id_log_sum_exp,
  id_dout,
  id_dq,
  id_dk,
  id_dv,
  id_scale,
  id_one,
  id_inner
};

/// The graph from q, k, v, scale to out = softmax(scale · q kᵀ) v and the logarithm of each row's
/// softmax denominator.
cudnn::Graph attention_graph(std::span<const CView> operands);

/// The graph from q, k, v, out, log_sum_exp, dout, scale, one to dq, dk, dv. It overwrites inner.
/// cuDNN keeps dS (b · h · n² bf16) in the plan's workspace. Summing dq by atomics would need no
/// workspace, but give other bits in each run.
cudnn::Graph attention_grad_graph(std::span<const CView> operands);

}  // namespace nystrom::cuda
