// Attention without a mask as graphs of cuDNN: the operations in the order in which its fused
// engines look for them.
#pragma once

#include "core/cuda/cudnn_graph.h"

namespace nystrom::cuda {

/// The tensors of the graphs. Operands come first, in this order: bf16 [b, h, n, d] with unit
/// columns, and log_sum_exp, f32 [b, h, n] contiguous. Beside them, scale and one (1) are f32 on
/// the host, and inner is f32 [b, h, n] of working memory.
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

/// Of q, k, v, scale: out = softmax(scale · q kᵀ) v, and the logarithm of the sum that each row was
/// divided by.
cudnn::Graph attention_graph(std::span<const CView> operands);

/// Of q, k, v, out, log_sum_exp, dout, scale, one: dq, dk, dv; writes inner. cuDNN keeps dS (b · h
/// · n² bf16) in the plan's workspace: summing dq in passing would need none, but by atomics, which
/// give other bits in each run.
cudnn::Graph attention_grad_graph(std::span<const CView> operands);

}  // namespace nystrom::cuda
