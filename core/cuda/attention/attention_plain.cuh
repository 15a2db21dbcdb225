// Attention for any sizes and types, with one warp a query or a key. It is simple and slow, and the
// reference for tests of the fused kernels.
#pragma once

#include "core/cuda/attention/attention_operands.h"

namespace nystrom::cuda {

/// kernels::attention and kernels::attention_grad.
void attention_plain(const AttentionOperands& o, View out, View log_sum_exp);
void attention_plain_grad(const AttentionOperands& o, CView out, CView log_sum_exp, CView dout,
                          View dq, View dk, View dv);

}  // namespace nystrom::cuda
